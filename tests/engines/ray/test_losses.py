"""Nodes of a Ray cluster go and come back, devices are another's, supervisors die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from staves.engines.agents import AgentEngine
from staves.engines.ray import RayNodes
from staves.testing._engine_job import Job
from tests.engines.agents.test_losses import having, supervisor
from tests.engines.ray.cluster import RayCluster, nodes_of, shared
from tests.training.launch import ended

STRANGER = """\
import sys
import ray

ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR", configure_logging=False)


@ray.remote(num_cpus=0, resources={sys.argv[2]: float(sys.argv[3])})
class Stranger:
    def here(self):
        return True


actor = Stranger.remote()
print(ray.get(actor.here.remote()), flush=True)
for line in sys.stdin:
    print(ray.get(actor.here.remote()), flush=True)
"""


class Stranger:
    """Another user of the cluster: an actor with devices of a type."""

    def __init__(self, cluster: RayCluster, kind: str, count: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", STRANGER, cluster.address, kind, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "True\n"

    def answers(self) -> bool:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return self._process.stdout.readline() == "True\n"

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config) -> RayCluster:
    return shared(pytestconfig)


@pytest.fixture
def nodes(cluster: RayCluster) -> Iterator[RayNodes]:
    with nodes_of(cluster) as found:
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def job(nodes: RayNodes, home: Path, tmp_path: Path) -> Iterator[Job]:
    job = Job(lambda: AgentEngine(home, nodes), tmp_path / "work")
    yield job
    job.abandon()


def test_a_node_goes_and_comes_back(job: Job, cluster: RayCluster) -> None:
    """Its raylet is killed in mid-training: what is left goes on, and it is used again."""
    left, right = job.devices[:2], job.devices[3:]
    job.train([*left, *right])
    job.until_on([*left, *right])
    began = time.monotonic()
    cluster.kill("right")
    try:
        job.until_on(left)
        noticed = time.monotonic() - began
        job.until(lambda status: "right" in status.pending, "the reason", crawl=True)
        job.until(lambda _: len(job.engine.cluster().nodes) == 2, "Ray to see it", crawl=True)
        seen = time.monotonic() - began
    finally:
        cluster.start("right")
    print(f"went on after {noticed:.1f} s; Ray saw it after {seen:.1f} s")
    job.until_on([*left, *right])
    job.allow(None)
    done = job.end().ended
    assert done is not None
    assert done.end == "finished", job.log()
    job.prove()


def test_all_that_it_had_goes_and_it_is_run_again_elsewhere(job: Job, cluster: RayCluster) -> None:
    left, right = job.devices[:2], job.devices[3:]
    job.train(left)
    job.until_on(left)
    cluster.kill("left")
    try:
        job.until(lambda _: "attempt 2 begins" in job.log(), "its loss to be seen", crawl=True)
        job.resize(right, request=1)
        job.until_on(right)
    finally:
        cluster.start("left")
    job.allow(None)
    done = job.end().ended
    assert done is not None
    assert done.end == "finished", job.log()
    job.prove()


def test_what_another_holds_is_waited_for_and_left_alone(job: Job, cluster: RayCluster) -> None:
    stranger = Stranger(cluster, "emu", 2)  # both of the node `left`, which alone has two
    left, right = job.devices[0], job.devices[3]
    assert (left.node, right.node) == ("left", "right")
    job.train([right])
    job.until_on([right])
    job.resize([right, left], request=1)
    status = job.until(lambda status: "0 of 2 free" in status.pending, "the reason", crawl=True)
    assert status.pending.startswith("left: 1 emu wanted, 0 of 2 free: another user of the Ray")
    assert stranger.answers()
    stranger.close()
    job.until_on([right, left])
    another = Stranger(cluster, "emu", 1)
    job.stop(save=True)
    job.end(crawl=True)
    assert another.answers()
    another.close()


def test_what_is_not_to_be_had_ends_the_attempt(
    cluster: RayCluster, home: Path, tmp_path: Path
) -> None:
    stranger = Stranger(cluster, "emu", 2)
    with nodes_of(cluster, pending_within=3.0) as nodes:
        job = Job(lambda: AgentEngine(home, nodes), tmp_path / "work")
        job.launch("true", job.devices[:1])
        done = job.end().ended
    assert done is not None
    assert done.end == "unplaced"
    assert "its place was not to be had within 3 s: 1 emu wanted, 0 of 2 free" in done.reason
    assert stranger.answers()
    stranger.close()


@pytest.mark.parametrize("who", ["supervisor", "actor"])
def test_nothing_is_left(job: Job, nodes: RayNodes, home: Path, who: str) -> None:
    job.launch("echo $$ >> pids; sh -c 'sleep 1000; true'; true", job.devices[2:4])
    job.until(lambda _: len(job.lines("pids")) == 2, "both")
    ranks = [int(line) for line in job.lines("pids")]
    mine = having(f"STAVES_HOME={home}")
    if who == "supervisor":
        os.kill(supervisor(home), signal.SIGKILL)
    else:
        (keeper, *_) = [pid for pid in mine if b"--agent" in read(pid, "cmdline")]
        os.kill(parent(keeper), signal.SIGKILL)
    assert all(ended(pid, timeout=60) for pid in (*ranks, *mine))
    done = job.engine.status("job-1", 1)
    if who == "supervisor":
        assert done.phase == "lost"
    else:
        assert done.ended is not None
        assert done.ended.end == "stopped"
    # Their devices are free: another attempt has them at once.
    job.attempt = 2
    job.launch("true", job.devices[2:4])
    again = job.end().ended
    assert again is not None
    assert again.end == "finished", job.log()


def read(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


def parent(pid: int) -> int:
    return int(read(pid, "stat").rpartition(b")")[2].split()[1])
