"""Steps that the host held up are left out of the fits, as long as others are left."""

from __future__ import annotations

import threading
from pathlib import Path

from staves.training._contention import SPOILED, Sieve, run_delay
from staves.training._timing import StepRecord


def record(step: int, delay: float) -> StepRecord:
    return StepRecord(step, 0, 8, 0.04, 0.06, (), (), 0.11, delay=delay)


def test_spoiled_steps_are_dropped_and_counted() -> None:
    sieve = Sieve()
    delays = [0.0, 0.5, 0.0, 2 * SPOILED * 0.1, 0.0, 0.5 * SPOILED * 0.1]
    passed = [sieve.admits(record(i, delay)) for i, delay in enumerate(delays)]
    assert passed == [True, False, True, False, True, True]
    assert sieve.dropped == 2


def test_a_device_that_is_held_up_most_of_the_time_is_measured_as_it_is() -> None:
    sieve = Sieve()
    passed = [sieve.admits(record(i, 0.05)) for i in range(40)]
    assert not any(passed[:8])
    assert all(passed[8:])
    assert sieve.dropped == 8
    # Freed again, single spoiled steps are dropped as before.
    assert all(sieve.admits(record(40 + i, 0.0)) for i in range(16))
    assert not sieve.admits(record(60, 0.05))


def test_what_is_declared_is_never_told_by_steps_that_were_late() -> None:
    sieve = Sieve(declared=True)
    assert not any(sieve.admits(record(i, 0.05)) for i in range(40))
    assert sieve.admits(record(40, 0.0))


def test_the_kernel_counts_what_a_thread_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "schedstat"
    file.write_text("123456 2500000000 17\n")
    read = run_delay(file)
    assert read() == 2.5
    file.write_text("123999 2750000000 18\n")
    assert read() == 2.75


def test_without_the_count_nothing_is_spoiled(tmp_path: Path) -> None:
    assert run_delay(tmp_path / "absent")() == 0.0
    empty = tmp_path / "schedstat"
    empty.write_text("")
    assert run_delay(empty)() == 0.0
    empty.write_text("not a number at all")
    assert run_delay(empty)() == 0.0


def test_this_machine_s_count_never_falls() -> None:
    readings: list[float] = []

    def body() -> None:
        read = run_delay()
        readings.extend(read() for _ in range(3))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert len(readings) == 3
    assert readings == sorted(readings)
    assert readings[0] >= 0
