"""Ctrl-C: a run with a checkpoint folder keeps what it has trained, and goes on from there."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from tests.elastic.driver import Job, job, largest_error, result

LIMIT = 1e-9
TRAINED = 5


def interrupt(running: Job) -> str:
    """Press Ctrl-C in the middle of a step; return what was said."""
    running.until_step(TRAINED)
    running.process.send_signal(signal.SIGINT)
    running.allow(running.allowed + 1)  # ranks wait in the script for their next step
    stdout, stderr = running.process.communicate(timeout=120)
    assert running.process.returncode == 130, stderr
    assert stdout == ""
    assert "Traceback" not in stderr
    assert not any(running.alive(member) for member in running.members())
    return stderr


def saved(checkpoints: Path) -> list[int]:
    found = sorted(checkpoints.glob("step-*/manifest.json"))
    return [json.loads(path.read_text())["step"] for path in found]


def test_what_was_trained_is_saved_and_goes_on(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    checkpoints = tmp_path / "checkpoints"
    with job(tmp_path, 2, "--checkpoint", checkpoints) as running:
        said = interrupt(running)
        assert "the same command goes on from there" in said
        steps = running.steps()
    assert saved(checkpoints) == [steps]
    assert steps >= TRAINED
    with job(tmp_path, 2, "--checkpoint", checkpoints, paced=False) as running:
        assert f"resumed at step {steps}" in running.finish()["stderr"]
        assert running.prove()["steps"] == undisturbed["steps"]
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT


def test_pressed_again_it_does_not_wait(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    with job(tmp_path, 2, "--checkpoint", checkpoints) as running:
        running.until_step(TRAINED)
        running.stall(running.members()[0])  # no boundary comes, so no checkpoint either
        running.process.send_signal(signal.SIGINT)
        assert running.process.stderr is not None
        for line in running.process.stderr:
            if "another signal" in line:
                break
        running.process.send_signal(signal.SIGINT)
        _, stderr = running.process.communicate(timeout=120)
        assert running.process.returncode == 130
        assert "the same command" not in stderr
    assert saved(checkpoints) == []
