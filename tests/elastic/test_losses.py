"""The loss of an epoch in which the members change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.elastic.driver import alone, job


def test_a_rank_that_leaves_has_told_its_part(tmp_path: Path) -> None:
    alone(tmp_path / "alone")
    wanted = json.loads((tmp_path / "alone" / "report.json").read_text())["loss"]
    with job(tmp_path, 2) as running:
        running.until(lambda: running.steps() >= 3, crawl=4.0, what="step 3")
        running.scale(1)
        running.until(lambda: len(running.members()) == 1, crawl=4.0, what="one member")
        assert running.steps() < 10, "the first epoch has 10 steps"
        loss = running.finish()["loss"]
    assert loss["first"] == pytest.approx(wanted["first"], rel=1e-9)
    assert loss["last"] == pytest.approx(wanted["last"], rel=1e-9)
    assert loss["covered"] == {"first": 1.0, "last": 1.0}


@pytest.mark.soak
def test_of_a_rank_that_is_killed_what_it_told_counts(tmp_path: Path) -> None:
    alone(tmp_path / "alone")
    wanted = json.loads((tmp_path / "alone" / "report.json").read_text())["loss"]
    with job(tmp_path, 2) as running:
        running.until(lambda: running.steps() >= 3, crawl=4.0, what="step 3")
        running.kill(1)
        loss = running.finish()["loss"]
    share = loss["covered"]["first"]
    print(f"{share:.1%} covered")
    assert 0.5 < share <= 1.0
    if share == 1.0:
        assert loss["first"] == pytest.approx(wanted["first"], rel=1e-9)
    assert loss["covered"]["last"] == 1.0
    assert loss["last"] == pytest.approx(wanted["last"], rel=1e-9)
