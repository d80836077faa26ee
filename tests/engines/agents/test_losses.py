"""Agents, their keepers, nodes, supervisors die: the job goes on, or nothing of it is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from staves.engines.local import AttemptFolder
from staves.testing._engine_job import Job
from tests.engines.agents.several import EMULATED, engine, folder
from tests.training.launch import ended


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def job(home: Path, tmp_path: Path) -> Iterator[Job]:
    job = Job(lambda: engine(home, EMULATED), tmp_path / "work")
    yield job
    job.abandon()


def agents(home: Path, node: str) -> list[int]:
    """Return the keeper and the agent of a node, in the order of their starts."""
    words = f"--node\0{node}\0".encode()
    return [pid for pid in having(f"STAVES_HOME={home}") if words in read(pid, "cmdline")]


def having(variable: str) -> list[int]:
    """Return the processes with this in their environment, oldest first."""
    pids = sorted(int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if variable.encode() in read(pid, "environ").split(b"\0")]


def read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has gone
        return b""


def supervisor(home: Path) -> int:
    return int(AttemptFolder.of(home, "job-1", 1).read("run.json")["pid"])


def test_a_node_goes_and_comes_back(job: Job, home: Path) -> None:
    left, right = job.devices[:2], job.devices[2:]
    job.train(job.devices[:4])
    job.until_on(job.devices[:4])
    (folder(home) / "right.down").touch()
    for pid in agents(home, "right"):
        os.kill(pid, signal.SIGKILL)
    status = job.until_on(left)
    assert status.wanted == tuple(device.name for device in (*left, *right))
    job.until(lambda status: "right is down" in status.pending, "the reason", crawl=True)
    job.until(lambda _: len(job.engine.cluster().nodes) == 1, "its loss to be seen", crawl=True)
    (folder(home) / "right.down").unlink()
    status = job.until_on([*left, *right])
    assert status.pending == ""
    job.until(lambda _: len(job.engine.cluster().nodes) == 2, "its return", crawl=True)
    job.allow(None)
    done = job.end().ended
    assert done is not None
    assert done.end == "finished", job.log()
    assert "the agent job-1-1-2 was lost" in job.log()
    job.prove()


@pytest.mark.parametrize("which", ["keeper", "agent"])
def test_an_agent_is_killed_and_another_comes(job: Job, home: Path, which: str) -> None:
    job.train(job.devices[1:3])
    job.until_on(job.devices[1:3])
    before = agents(home, "right")
    os.kill(before[0 if which == "keeper" else 1], signal.SIGKILL)
    assert all(ended(pid, timeout=60) for pid in before)
    job.until(lambda status: status.generation > 1, "its loss to be seen", crawl=True)
    job.until_on(job.devices[1:3])
    job.allow(None)
    done = job.end().ended
    assert done is not None
    assert done.end == "finished", job.log()
    job.prove()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_all_agents_are_killed_and_it_is_run_again(job: Job, home: Path, count: int) -> None:
    """Nobody is left who has the state, nor anybody who has not: it is no end of training."""
    devices = job.devices[:count]
    job.train(devices)
    job.until_on(devices)
    before = [pid for node in ("left", "right") for pid in agents(home, node)]
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    job.until(lambda status: status.generation > 1, "its loss to be seen", crawl=True)
    job.until_on(devices)
    assert "attempt 2 begins" in job.log()
    job.allow(None)
    done = job.end().ended
    assert done is not None
    assert done.end == "finished", job.log()
    job.prove()


def test_an_agent_that_stands_still_is_lost(job: Job, home: Path) -> None:
    job.train(job.devices[1:3])
    job.until_on(job.devices[1:3])
    (folder(home) / "right.down").touch()
    before = agents(home, "right")
    os.kill(before[1], signal.SIGSTOP)
    job.until_on(job.devices[1:2])
    assert "nothing was heard of it for 10 s" in job.log()
    assert all(ended(pid, timeout=60) for pid in before)
    job.stop(save=True)
    assert job.end(crawl=True).ended is not None


@pytest.mark.parametrize(
    "text",
    [
        "echo $$ >> pids; exec sleep 1000",
        "sh -c 'echo $$ >> pids; sleep 1000; true'; true",
        "setsid sh -c 'echo $$ >> pids; sleep 1000; true'; true",
    ],
    ids=["itself", "grandchild", "in a session of its own"],
)
@pytest.mark.parametrize("who", ["supervisor", "keeper", "agent"])
def test_nothing_is_left(job: Job, home: Path, text: str, who: str) -> None:
    job.launch(text, job.devices[1:3])
    job.until(lambda _: len(job.lines("pids")) == 2, "both")
    ranks = [int(line) for line in job.lines("pids")]
    held = {node: agents(home, node) for node in ("left", "right")}
    if who == "supervisor":
        os.kill(supervisor(home), signal.SIGKILL)
    else:
        os.kill(held["right"][0 if who == "keeper" else 1], signal.SIGKILL)
    assert all(ended(pid, timeout=60) for pid in (*ranks, *held["left"], *held["right"]))
    assert ended(supervisor(home), timeout=60)
    status = job.engine.status("job-1", 1)
    if who == "supervisor":
        assert status.phase == "lost"
    else:
        assert status.ended is not None
        assert status.ended.end == "stopped", "it may be run again: nothing of it has failed"
        assert "the agent on right" in status.ended.reason
    assert having(f"STAVES_RUN={AttemptFolder.of(home, 'job-1', 1).path}") == []


def test_a_node_that_stays_away_is_no_failure_of_the_job(home: Path, tmp_path: Path) -> None:
    job = Job(lambda: engine(home, EMULATED, pending_within=0.0), tmp_path / "work")
    job.train(job.devices[2:3])
    job.until_on(job.devices[2:3])
    (folder(home) / "right.down").touch()
    for pid in agents(home, "right"):
        os.kill(pid, signal.SIGKILL)
    done = job.end(crawl=True).ended
    assert done is not None
    assert done.end == "stopped", job.log()
    assert "fewer than 1 members are left" in done.reason


def test_a_place_that_is_not_to_be_had(home: Path, tmp_path: Path) -> None:
    job = Job(lambda: engine(home, EMULATED, pending_within=0.0), tmp_path / "work")
    devices = job.devices
    folder(home).mkdir()
    (folder(home) / "right.down").touch()
    job.launch("true", devices[2:3])
    done = job.end().ended
    assert done is not None
    assert done.end == "unplaced"
    assert done.reason == "right: no agent: right is down"
