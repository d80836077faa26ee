"""Elastic training on emulated devices, whose workers are forked: nothing else differs."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.elastic.driver import Job, job, largest_error, result
from tests.training.launch import ended

LIMIT = 1e-9


def forked(running: Job) -> list[bool]:
    """Whether each member was forked: such a process has the nursery's command line."""
    commands = [Path(f"/proc/{running.pid(m)}/cmdline").read_bytes() for m in running.members()]
    return [b"staves.training.nursery" in command for command in commands]


def nursery(running: Job) -> int:
    path = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
    members = {running.pid(member) for member in running.members()}
    (found,) = (
        pid
        for pid in map(int, path.read_text().split())
        if b"staves.training.nursery" in Path(f"/proc/{pid}/cmdline").read_bytes()
        and pid not in members
    )
    return found


@pytest.mark.soak
def test_growing_and_losing_one(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    """The result is one process's: 4, 2, 4, and one killed and replaced."""
    with job(tmp_path, 4, emulated=True) as running:
        running.until_world(4)
        running.scale(2)
        running.until_world(2)
        running.scale(4)
        running.until_world(4)
        victim = running.members()[1]
        running.kill(victim)
        running.until_world(4, without=victim)
        assert forked(running) == [True] * 4
        figures = running.finish()
        running.prove()
    assert "nursery" not in figures["stderr"]
    assert figures["emulated"] is True
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT


def test_undisturbed_results_are_equal_to_the_bit(tmp_path: Path) -> None:
    results = []
    for fork in ("1", "0"):
        folder, environ = tmp_path / fork, {"STAVES_FORK": fork, "STAVES_SPLIT": "even"}
        with job(folder, 2, emulated=True, paced=False, environ=environ) as running:
            running.finish()
        results.append(result(folder))
    assert largest_error(*results) == 0.0


@pytest.mark.soak
def test_the_nursery_dies(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    """Training goes on; who comes later is started by exec, with one warning."""
    with job(tmp_path, 3, emulated=True) as running:
        running.until_world(3)
        os.kill(nursery(running), signal.SIGKILL)
        running.scale(2)
        running.until_world(2)
        running.scale(3)
        running.until_world(3)
        assert sorted(forked(running)) == [False, True, True]
        figures = running.finish()
        running.prove()
    assert figures["stderr"].count("nursery") == 1
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT


def test_the_supervisor_dies(tmp_path: Path) -> None:
    """Everything dies with it."""
    with job(tmp_path, 3, emulated=True) as running:
        running.until_world(3)
        assert forked(running) == [True] * 3
        pid = nursery(running)
        running.kill_supervisor()
        assert ended(pid, timeout=10)
