"""Rule 13: a boundary that does not come because a rank evaluates."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.elastic.driver import Job, job, largest_error, result

LIMIT = 1e-9
GRACE = 2.0


def dawdle(running: Job, member: int) -> Path:
    """Have a member evaluate slowly until the file is removed; it does so by now."""
    path, seen = running.folder / f"dawdle-{member}", running.folder / f"dawdling-{member}"
    path.touch()
    running.until(seen.exists, crawl=0.02, what=f"{member} to evaluate")
    return path


def outlast_grace(running: Job) -> None:
    """The 32 items of one evaluation take 8 s; this is well within, and beyond grace."""
    end = time.monotonic() + 2 * GRACE
    running.until(lambda: time.monotonic() > end)


@pytest.mark.parametrize("member", [0, pytest.param(2, marks=pytest.mark.soak)])
def test_rule_13_a_change_during_a_long_evaluation(
    member: int, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """A newcomer joins behind it, a loss is mended behind it, and nobody is ended."""
    with job(tmp_path, 4, "--grace", GRACE) as running:
        running.until_world(4)
        running.scale(3)
        running.until_world(3)
        path = dawdle(running, member)
        running.scale(4)
        outlast_grace(running)
        path.unlink()
        running.until_world(4)
        assert member in running.members()
        (tmp_path / f"dawdling-{member}").unlink()
        path = dawdle(running, member)
        running.scale(3)
        victim = next(m for m in running.members() if m not in (member, 3))
        running.signal(victim)
        outlast_grace(running)
        path.unlink()
        running.until(lambda: victim not in running.members(), what=f"a change without {victim}")
        assert member in running.members()
        figures = running.finish()
        running.prove()
    assert "is ended" not in figures["stderr"]
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT
