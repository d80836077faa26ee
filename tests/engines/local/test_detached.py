"""Detached supervisors: whoever dies, an attempt runs at most once, and nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from staves.engines.local import AttemptFolder, LocalEngine
from staves.engines.local import _engine as engine_module
from staves.engines.local._sessions import Session, end_sessions
from staves.errors import StavesError
from staves.hardware import parse_cluster
from staves.testing._engine import WAIT
from staves.testing._engine_job import Job
from tests.training.launch import command, ended, environment

CLUSTER = "nodes: [{name: box, devices: {local-cpu: 3}}]"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def job(home: Path, tmp_path: Path) -> Iterator[Job]:
    job = Job(lambda: LocalEngine(home, parse_cluster(CLUSTER)), tmp_path / "work")
    yield job
    job.abandon()


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process of somebody else."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True
    )
    yield process.pid
    assert process.poll() is None, "it was ended"
    process.kill()
    process.wait()


def supervisor(home: Path, attempt: int = 1) -> int:
    return int(AttemptFolder.of(home, "job-1", attempt).read("run.json")["pid"])


def pids(job: Job) -> list[int]:
    return [int(line) for line in job.lines("pids")]


LAUNCH = """
import os, signal, sys
from pathlib import Path
from staves.engines._base import Launch
from staves.engines.local import LocalEngine
from staves.hardware import parse_cluster

home, folder, command, cluster = sys.argv[1:]
engine = LocalEngine(Path(home), parse_cluster(cluster))
devices = engine.cluster().devices()
engine.launch(Launch("job-1", 1, command, devices, Path(folder), dict(os.environ)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_outlives_whoever_launched_it(job: Job, home: Path) -> None:
    words = ["-c", LAUNCH, home, job.folder, f"echo x >> ran; {WAIT}; echo y >> ran", CLUSTER]
    assert command(words, home).status == -signal.SIGKILL
    job.until(lambda _: len(job.lines("ran")) == 3, "all ranks")
    (job.folder / "go").touch()
    outcome = job.end().ended
    assert outcome is not None
    assert outcome.end == "finished"
    assert job.lines("ran") == ["x", "x", "x", "y", "y", "y"]


@pytest.mark.parametrize(
    "text",
    [
        "echo $$ >> pids; exec sleep 1000",
        "sh -c 'echo $$ >> pids; sleep 1000; true'; true",
        "setsid sh -c 'echo $$ >> pids; sleep 1000; true'; true",
    ],
    ids=["itself", "grandchild", "in a session of its own"],
)
def test_a_killed_supervisor_leaves_nothing(job: Job, home: Path, stranger: int, text: str) -> None:
    job.launch(text, job.devices[:2])
    job.until(lambda _: len(job.lines("pids")) == 2, "both")
    os.kill(supervisor(home), signal.SIGKILL)
    assert ended(supervisor(home), timeout=30)
    assert job.engine.status("job-1", 1).phase == "lost"
    assert all(ended(pid) for pid in pids(job))
    marked = f"STAVES_RUN={AttemptFolder.of(home, 'job-1', 1).path}".encode()
    assert not [p for p in Path("/proc").glob("[0-9]*/environ") if marked in _read(p)]
    job.launch(text, job.devices[:2])
    assert job.engines().status("job-1", 1).phase == "lost", "and it stays so"
    assert len(job.lines("pids")) == 2


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_next_attempt_ends_what_the_lost_one_left(job: Job, home: Path) -> None:
    """Nobody has asked for the lost one's status in between."""
    job.launch("sh -c 'echo $$ >> pids; sleep 1000; true'; true", job.devices[:1])
    job.until(lambda _: job.lines("pids"), "its start")
    os.kill(supervisor(home), signal.SIGKILL)
    assert ended(supervisor(home), timeout=30)
    job.attempt = 2
    # A zombie has no command line any more.
    look = r"tr '\0' ' ' < /proc/$(cat pids)/cmdline | grep sleep > found; true"
    job.launch(look, job.devices[:1])
    job.end()
    assert job.lines("found") == []


def test_an_attempt_that_runs_keeps_the_next_one_away(job: Job) -> None:
    job.launch(WAIT, job.devices[:1])
    job.until(lambda status: status.phase == "running", "its start")
    job.attempt = 2
    with pytest.raises(StavesError, match="job-1/1 still runs"):
        job.launch("true", job.devices[:1])
    assert job.status().phase == "absent"
    job.attempt = 1
    (job.folder / "go").touch()
    job.end()


def test_of_many_supervisors_one_has_the_claim(job: Job, home: Path) -> None:
    job.launch("echo x >> ran", job.devices[:1])
    folder = AttemptFolder.of(home, "job-1", 1)
    words = [sys.executable, "-m", "staves.engines.local", str(folder.path)]
    others = [subprocess.Popen(words, env=environment(home)) for _ in range(3)]
    assert [other.wait(timeout=60) for other in others] == [0, 0, 0]
    job.end()
    assert job.lines("ran") == ["x"]


def test_the_claim_is_seen_with_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "job" / "attempts" / "1"
    path.mkdir(parents=True)
    folder = AttemptFolder(path)
    assert not folder.supervised
    lock = folder.claim()
    assert lock is not None
    assert folder.supervised
    assert folder.claim() is None
    assert [file.name for file in path.iterdir()] == ["claim"]
    os.close(lock)
    assert not folder.supervised
    assert folder.claim() is None, "once is once"


def test_a_supervisor_that_never_came_is_lost_for_good(
    job: Job, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher died between the file and the process."""
    monkeypatch.setattr(LocalEngine, "_spawn", lambda self, folder: None)
    job.launch("echo x >> ran", job.devices[:1])
    assert job.status().phase == "starting"
    monkeypatch.setattr(engine_module, "UNCLAIMED_FOR", 0.0)
    assert job.status().phase == "lost"
    path = AttemptFolder.of(home, "job-1", 1).path
    late = command(["-m", "staves.engines.local", path], home)
    assert late.status == 0, late.stderr
    assert job.lines("ran") == []
    assert job.status().phase == "lost"


def test_a_number_that_belongs_to_another_process_by_now(stranger: int) -> None:
    noted = Session.of(stranger)
    assert noted.started is not None
    end_sessions([Session(stranger, noted.started - 1, noted.boot)], mark="/nowhere")
    end_sessions([Session(stranger, noted.started, "another boot")], mark="/nowhere")
    end_sessions([Session(stranger, None, noted.boot)], mark="/nowhere")


def test_a_worker_that_lives_on_is_ended_with_its_session() -> None:
    script = "import subprocess as s; s.Popen(['sleep', '1000']); print(1, flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.readline()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    end_sessions([Session.of(process.pid)], mark="/nowhere")
    assert process.wait(timeout=30) == -signal.SIGKILL
    assert len(children) == 1
    assert ended(int(children[0]))
    process.stdout.close()
    process.stdin.close()


def test_its_history_is_proved_by_the_jobs_name(job: Job, home: Path) -> None:
    job.train(job.devices[:2])
    job.until_on(job.devices[:2])
    job.allow(None)
    assert job.end() == job.engines().status("job-1", 1), "as any process sees it"
    done = command(["-m", "staves", "doctor", "--job", "job-1", "--json"], home)
    assert done.status == 0, done.stderr
    proof = json.loads(done.stdout)
    assert proof["exactly_once"] is True
    assert (proof["job"], proof["steps"]) == ("job-1/1", 150)
