"""A stream through growing, shrinking, a loss and a restart: the end is that of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.elastic.driver import alone, job, largest_error, result


@pytest.mark.soak
def test_a_stream_through_all_that_happens(tmp_path: Path) -> None:
    for folder in (tmp_path / "alone", tmp_path / "job"):
        folder.mkdir()
        (folder / "stream").touch()
    wanted = alone(tmp_path / "alone")
    checkpoints = tmp_path / "checkpoints"
    kept = ("--checkpoint", checkpoints)
    with job(tmp_path / "job", 3, *kept, "--every", "1s") as running:
        running.until_world(3)
        running.scale(2)
        running.until_world(2)
        running.scale(3)
        running.until_world(3)
        running.kill(running.members()[-1])
        running.until(lambda: any(checkpoints.glob("step-*/manifest.json")), what="a checkpoint")
        running.until_step(running.steps() + 5)
        running.kill_supervisor()
    with job(tmp_path / "job", 2, *kept, paced=False) as running:
        figures = running.finish()
        running.prove()
    assert "resumed at step" in figures["stderr"]
    assert largest_error(result(tmp_path / "job"), wanted) <= 1e-9
