"""Many at once, and writers that are killed: what was acknowledged is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import pytest

from staves.errors import InputError
from staves.service._spec import JobSpec
from staves.service._states import Grant, Lost, Pause, Resume
from staves.service._store import Store

SOURCE = Path(__file__).parents[2] / "src"
SPEC = JobSpec("digits", "python train.py", Path("/work"), Path("/usr/bin/python3"))

WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from staves.service._spec import JobSpec
from staves.service._states import Grant, Hello
from staves.service._store import Store

store = Store(Path(sys.argv[1]))
spec = JobSpec("digits", "python train.py", Path("/work"), Path("/usr/bin/python3"))
for number in range(100_000):
    job = store.submit(spec, "abc", "ann", now=1.0, key=f"{sys.argv[2]}-{number}")
    store.apply(job, Grant((f"device-{number}",)), Hello(), now=2.0)
    print(job, f"device-{number}", flush=True)
"""


@pytest.mark.parametrize("acknowledged", [1, 7, 40])
def test_what_a_killed_writer_has_acknowledged_is_there(tmp_path: Path, acknowledged: int) -> None:
    told: dict[str, str] = {}
    for kill in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(kill)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        assert writer.stdout is not None
        try:
            with writer.stdout:
                for _ in range(acknowledged):
                    job, device = writer.stdout.readline().split()
                    told[job] = device
                with pytest.raises(InputError, match="another process has this store open"):
                    Store(tmp_path)
                with Store(tmp_path, reader=True) as reader:
                    assert {job.id for job in reader.jobs()} >= told.keys()
                writer.send_signal(signal.SIGKILL)
                for line in writer.stdout:
                    job, _, device = line.strip().partition(" ")
                    if line.endswith("\n") and device:
                        told[job] = device
        finally:
            writer.kill()
            writer.wait()
    with Store(tmp_path) as store:
        there = {job.id: job for job in store.jobs()}
        for number, device in told.items():
            record = there[number].record
            assert (record.state, record.devices) == ("probing", (device,))
            assert [line.event for line in store.story(number)] == ["submit", "grant", "hello"]
        # At most one more each time: what was under way is whole, or not there at all.
        assert len(there) - len(told) in range(3)
        for stored in there.values():
            events = [line.event for line in store.story(stored.id)]
            assert events in (["submit"], ["submit", "grant", "hello"])


def test_nobody_is_locked_out(tmp_path: Path) -> None:
    """Reads and then writes in one transaction, from many threads, while others read."""
    writers, turns = 6, 15
    over = Event()
    seen: list[int] = []

    def read() -> None:
        with Store(tmp_path, reader=True) as reader:
            while not over.is_set():
                jobs = reader.jobs()
                for job in jobs:
                    assert reader.story(job.id)[-1].time >= job.submitted
                seen.append(len(jobs))

    with Store(tmp_path) as store:
        shared = store.submit(SPEC, "abc", "ann", now=1.0)

        def write(writer: int) -> None:
            for turn in range(turns):
                job = store.submit(SPEC, "abc", "ann", now=1.0, key=f"{writer}-{turn}")
                store.apply(job, Pause(), Resume(), now=2.0)
                store.apply(shared, Pause(), Resume(), now=2.0)
                store.observe(job, progress={"step": turn})

        readers = [Thread(target=read) for _ in range(2)]
        for thread in readers:
            thread.start()
        try:
            with ThreadPoolExecutor(writers) as pool:
                for done in [pool.submit(write, number) for number in range(writers)]:
                    done.result()
        finally:
            over.set()
            for thread in readers:
                thread.join()
        assert len(store.jobs()) == 1 + writers * turns
        assert len(store.story(shared)) == 1 + 2 * writers * turns
    assert seen, "nobody has read"


def test_a_job_that_two_threads_steer_takes_each_event_once(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        job = store.submit(SPEC, "abc", "ann", now=1.0)

        def grant(number: int) -> bool:
            try:
                store.apply(job, Grant((f"device-{number}",)), now=2.0)
            except InputError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(grant, range(8))) == 1
        assert store.job(job).record.attempt == 1
        assert store.apply(job, Lost(), now=3.0).state == "failed"
