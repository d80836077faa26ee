"""Whatever ends `staves run`, no worker outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.launch import Roll, cluster_file, ended, started

WORLD = 2

TREE = """
import os, signal, subprocess, sys
pause = "import signal; signal.pause()"
child = subprocess.Popen([sys.executable, "-c", pause])
print("waiting", flush=True)
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()} {child.pid}\\n")
signal.pause()
"""

OBSTINATE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + TREE


@pytest.fixture
def roll(tmp_path: Path) -> Iterator[Roll]:
    roll = Roll(tmp_path / "roll")
    yield roll
    roll.close()


def end_with(number: int, tmp_path: Path, roll: Roll, text: str) -> tuple[int, str, str, list[int]]:
    """Send a signal to a run whose workers are up; return how it ended, and all their pids."""
    script = tmp_path / "script.py"
    script.write_text(text)
    devices = cluster_file(tmp_path, WORLD)
    words = ["-m", "staves", "run", script, roll.path, "--devices", devices, "--json"]
    with started(words, tmp_path / "home") as process:
        lines = roll.lines(WORLD)
        workers = [int(line.split()[0]) for line in lines]
        children = [int(line.split()[1]) for line in lines]
        process.send_signal(number)
        if number == signal.SIGKILL:
            process.wait(timeout=30)  # its pipes may be held by grandchildren
            assert all(ended(pid, timeout=10) for pid in workers)
            return process.returncode, "", "", children
        stdout, stderr = process.communicate(timeout=30)
    return process.returncode, stdout, stderr, workers + children


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_asked_to_end(number: int, status: int, tmp_path: Path, roll: Roll) -> None:
    returned, stdout, stderr, pids = end_with(number, tmp_path, roll, TREE)
    assert returned == status, stderr
    assert stdout == ""
    assert "Traceback" not in stderr
    assert "waiting" in stderr
    assert all(ended(pid, timeout=10) for pid in pids)


def test_workers_that_will_not_end_are_made_to(tmp_path: Path, roll: Roll) -> None:
    returned, _, _, pids = end_with(signal.SIGINT, tmp_path, roll, OBSTINATE)
    assert returned == 130
    assert all(ended(pid, timeout=10) for pid in pids)


def test_killed(tmp_path: Path, roll: Roll) -> None:
    """The kernel ends the workers; what they started themselves it does not know."""
    returned, _, _, children = end_with(signal.SIGKILL, tmp_path, roll, TREE)
    assert returned == -signal.SIGKILL
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
