"""Workers that live and do nothing: stopped processes."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.elastic.driver import job, largest_error, result

LIMIT = 1e-9


@pytest.mark.soak
def test_a_stopped_worker_is_ended_and_replaced(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """No change is wanted, and its process is there: only its silence tells."""
    with job(tmp_path, 3, "--grace", "2") as running:
        running.until_step(8)
        running.signal(1, signal.SIGSTOP)
        running.until(lambda: 1 not in running.members(), what="a generation without 1")
        running.until_world(3, without=1)
        figures = running.finish()
        running.prove()
    assert "is ended: it does not answer any more" in figures["stderr"]
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT


@pytest.mark.soak
def test_a_worker_that_is_stopped_for_a_moment_trains_on(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    with job(tmp_path, 2) as running:
        running.until_step(8)
        running.signal(1, signal.SIGSTOP)
        running.signal(1, signal.SIGCONT)
        running.until_step(running.steps() + 5)
        figures = running.finish()
        running.prove()
        assert len(running.rows("generation")) == 1
    assert "ended" not in figures["stderr"]
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT


@pytest.mark.soak
def test_a_supervisor_that_was_stopped_blames_nobody(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """Ctrl-Z and fg: its own silence is not the workers'. Their lease (10 s) may end meanwhile."""
    with job(tmp_path, 2, "--grace", "1") as running:
        running.until_step(8)
        running.process.send_signal(signal.SIGSTOP)
        end = time.monotonic() + 12.0  # beyond the lease, and what a worker has to answer
        running.until(lambda: time.monotonic() > end)
        running.process.send_signal(signal.SIGCONT)
        running.until_step(running.steps() + 5)
        figures = running.finish()
        running.prove()
    assert "is ended" not in figures["stderr"]
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT
