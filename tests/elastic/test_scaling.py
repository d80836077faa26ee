"""Scaling in place (rules 4, 5, 8, 18): what comes out is what one process makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.elastic.driver import job, largest_error, result

LIMIT = 1e-9


def test_4_2_4_3_equals_one_process(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    """Parameters, two optimizers, a cosine schedule, an EMA, a best metric: all come along."""
    with job(tmp_path, 4) as running:
        running.until_world(4)
        running.until_step(15)
        running.scale(2)
        running.until_world(2)
        running.until_step(running.steps() + 13)
        running.scale(4)
        running.until_world(4)
        running.until_step(running.steps() + 7)
        running.scale(3)
        running.until_world(3)
        figures = running.finish()
        proof = running.prove()
    error = largest_error(result(tmp_path), undisturbed)
    print(f"4-2-4-3: {figures['rescales']} rescales, pauses {figures['pauses_seconds']}, {error=}")
    assert error <= LIMIT
    assert figures["rescales"] >= 3
    assert figures["steps"] == proof["steps"] == undisturbed["steps"]
    assert (tmp_path / "once-calls").read_text().split() in [["0"], ["1"], ["2"], ["3"]]
