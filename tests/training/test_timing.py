"""Where a step's time goes, from scripted marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from staves.training._timing import HostClock, StepRecord, StepTimer


class ScriptedClock:
    """A clock that shows what it is told; None stands for a mark that is still to come."""

    def __init__(self) -> None:
        self.time: float | None = 0.0

    def now(self) -> object:
        return self.time

    def readings(self, marks: Sequence[object]) -> list[float] | None:
        known = [mark for mark in marks if isinstance(mark, float)]
        return [mark - known[0] for mark in known] if len(known) == len(marks) else None


class Marks:
    def __init__(self) -> None:
        self.clock = ScriptedClock()
        self.timer = StepTimer(self.clock)

    def read(self, **noted: Any) -> StepRecord | None:
        """Note the step that has just ended, and return the oldest that can be read."""
        self.timer.note(**noted)
        return next(self.timer.records(), None)

    def at(self, time: float | None) -> StepTimer:
        self.clock.time = time
        return self.timer

    def step(
        self, backward: float, ready: Sequence[float], done: Sequence[tuple[int, float]], end: float
    ) -> None:
        self.at(backward).backward()
        for time in ready:
            self.at(time).bucket_ready(8)
        for place, time in done:
            self.at(time).bucket_done(place)
        self.at(end).end()


def test_forward_backward_ready_and_wire() -> None:
    marks = Marks()
    marks.at(10.0).begin()
    # The second bucket is ready while the first is on the wire: it waits for it until 16.
    marks.step(12.0, [13.0, 15.0, 18.0], [(0, 16.0), (1, 17.0), (2, 21.0)], 21.5)
    record = marks.read(step=4, plan=2, samples=9)
    assert record is not None
    assert (record.step, record.plan, record.samples) == (4, 2, 9)
    assert record.forward == 2.0
    assert record.backward == 6.0
    assert record.ready == (1.0, 3.0, 6.0)
    assert record.wire == (3.0, 1.0, 3.0)
    assert record.step_seconds == 11.5


def test_the_next_step_starts_where_the_last_one_ended() -> None:
    marks = Marks()
    marks.at(0.0).begin()
    marks.step(1.0, [2.0], [(0, 3.0)], 3.0)
    marks.read(step=0, plan=0, samples=1)
    assert marks.timer.started
    marks.step(5.0, [6.0], [(0, 6.5)], 7.0)
    record = marks.read(step=1, plan=0, samples=1)
    assert record is not None
    assert (record.forward, record.backward, record.wire) == (2.0, 1.0, (0.5,))
    assert record.step_seconds == 4.0


def test_a_pause_belongs_to_no_step() -> None:
    marks = Marks()
    marks.at(0.0).begin()
    marks.step(1.0, [2.0], [(0, 3.0)], 3.0)
    marks.read(step=0, plan=0, samples=1)
    marks.timer.pause()
    assert not marks.timer.started
    marks.at(100.0).begin()
    marks.step(101.0, [102.0], [(0, 103.0)], 103.0)
    record = marks.read(step=1, plan=0, samples=1)
    assert record is not None
    assert record.step_seconds == 3.0


def test_a_step_whose_start_is_not_known_has_no_record() -> None:
    marks = Marks()
    marks.step(1.0, [2.0], [(0, 3.0)], 3.0)
    assert marks.read(step=0, plan=0, samples=1) is None


@pytest.mark.parametrize("missing", range(5))
def test_a_mark_that_is_still_to_come_leaves_the_record_out(missing: int) -> None:
    times: list[float | None] = [0.0, 1.0, 2.0, 3.0, 4.0]
    times[missing] = None
    marks = Marks()
    marks.at(times[0]).begin()
    marks.at(times[1]).backward()
    marks.at(times[2]).bucket_ready(8)
    marks.at(times[3]).bucket_done(0)
    marks.at(times[4]).end()
    record = marks.read(step=0, plan=0, samples=1)
    if missing == 3:  # the collective's own thread may be late: the step's end stands in
        assert record is None or record.wire == (2.0,)
    else:
        assert record is None


def test_a_bucket_that_was_not_seen_to_end_ended_with_the_step() -> None:
    marks = Marks()
    marks.at(0.0).begin()
    marks.step(1.0, [2.0, 3.0], [(0, 4.0)], 6.0)
    record = marks.read(step=0, plan=0, samples=1)
    assert record is not None
    assert record.wire == (2.0, 2.0)


def test_without_a_group_the_backward_pass_ends_the_step() -> None:
    marks = Marks()
    marks.at(0.0).begin()
    marks.step(1.0, [], [], 4.0)
    record = marks.read(step=0, plan=0, samples=1)
    assert record is not None
    assert (record.forward, record.backward, record.step_seconds) == (1.0, 3.0, 4.0)
    assert (record.ready, record.wire) == ((), ())


def test_the_last_of_several_backward_passes_counts() -> None:
    marks = Marks()
    marks.at(0.0).begin()
    marks.at(1.0).backward()
    marks.at(2.0).bucket_ready(8)
    marks.step(5.0, [6.0], [(0, 7.0)], 7.0)
    record = marks.read(step=0, plan=0, samples=1)
    assert record is not None
    assert (record.forward, record.backward, record.ready) == (5.0, 1.0, (1.0,))


def test_data_and_update_are_told_apart_from_the_forward_pass() -> None:
    marks = Marks()
    marks.at(0.0).begin()
    marks.step(1.0, [2.0], [(0, 3.0)], 3.0)
    marks.at(3.5).updating()
    marks.at(4.0).updated()
    marks.at(4.25).updating()  # a second optimizer
    marks.at(4.5).updated()
    first = marks.read(step=0, plan=0, samples=1)
    marks.at(5.0).loading()
    marks.at(7.0).loaded()
    marks.step(10.0, [11.0], [(0, 12.0)], 12.0)
    second = marks.read(step=1, plan=0, samples=1, micro_steps=3)
    assert first is not None
    assert second is not None
    assert (first.data, first.update) == (0.0, 0.0)
    assert (second.data, second.update, second.forward) == (2.0, 0.75, 7.0)
    assert second.micro_steps == 3


def test_a_pause_drops_the_parts_that_came_before_it() -> None:
    marks = Marks()
    marks.at(0.0).begin()
    marks.step(1.0, [2.0], [(0, 3.0)], 3.0)
    marks.at(3.5).updating()
    marks.at(4.0).updated()
    marks.read(step=0, plan=0, samples=1)
    marks.timer.pause()
    marks.at(9.0).begin()
    marks.step(10.0, [11.0], [(0, 12.0)], 12.0)
    record = marks.read(step=1, plan=0, samples=1)
    assert record is not None
    assert (record.update, record.forward) == (0.0, 1.0)


class LateClock(ScriptedClock):
    """A device that runs behind its host: what is marked is known only when it has come so far."""

    passed = 0.0

    def readings(self, marks: Sequence[object]) -> list[float] | None:
        readings = super().readings(marks)
        late = any(isinstance(mark, float) and mark > self.passed for mark in marks)
        return None if late else readings


def test_a_device_behind_its_host_is_read_some_steps_later() -> None:
    marks = Marks()
    marks.clock = clock = LateClock()
    marks.timer = StepTimer(clock)
    marks.at(0.0).begin()
    records = []
    for step in range(6):
        at = 10.0 * step
        marks.step(at + 1, [at + 2], [(0, at + 10)], at + 10)
        clock.passed = at - 10  # two steps behind
        records.append(marks.read(step=step, plan=step // 2, samples=step))
    assert records[:2] == [None, None]
    for step, record in enumerate(records[2:]):
        assert record is not None
        assert (record.step, record.plan, record.samples) == (step, step // 2, step)
        assert record.step_seconds == 10.0


def test_the_rest_of_an_epoch_has_no_record() -> None:
    marks = Marks()
    marks.at(0.0).begin()
    marks.step(1.0, [2.0], [(0, 3.0)], 3.0)
    assert marks.read(step=0, plan=0, samples=1, whole=False) is None
    marks.step(4.0, [5.0], [(0, 6.0)], 6.0)
    record = marks.read(step=1, plan=0, samples=1)
    assert record is not None
    assert record.step == 1


def test_the_hosts_delay_is_that_of_its_step() -> None:
    marks, delayed = Marks(), [0.5]
    marks.timer = StepTimer(marks.clock, lambda: delayed[0])
    marks.at(0.0).begin()
    delays = []
    for step, total in enumerate((0.75, 0.75, 1.75)):
        delayed[0] = total
        at = 10.0 * step
        marks.step(at + 1, [at + 2], [(0, at + 3)], at + 10)
        record = marks.read(step=step, plan=0, samples=1)
        assert record is not None
        delays.append(record.delay)
    assert delays == [0.25, 0.0, 1.0]


def test_the_host_clock_moves_on() -> None:
    clock = HostClock()
    first = clock.now()
    same, since = clock.readings([first, clock.now()])
    assert same == 0
    assert since >= 0
