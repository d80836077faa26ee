"""The benchmark of heet's decision, on sizes that take no time."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import decision
from staves.scheduling import Heet
from staves.simulation import synthetic_view


def test_what_it_measures_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(decision, "SMALL", (6, 16))
    monkeypatch.setattr(decision, "JOBS", ((4, 40), (8, 40)))
    monkeypatch.setattr(decision, "DEVICES", ((6, 40), (6, 80)))
    monkeypatch.setattr(decision, "OWN", ((4, 16),))
    monkeypatch.setattr(decision, "ROUNDS", 2)
    result = decision.measure()
    for row in (result["small"], *result["by_jobs"]["sizes"], *result["own_rates"]):
        assert row["decision_seconds"] > 0
        assert 0 <= row["gap"] < 0.2
    assert [row["jobs"] for row in result["by_jobs"]["sizes"]] == [4, 8]
    assert [row["devices"] for row in result["by_devices"]["sizes"]] == [40, 80]
    assert abs(result["rounds"]["gap_to_best"]["p99"]) <= 1e-4
    decision.draw(result, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_the_optimum_is_that_of_the_decisions_own_problem() -> None:
    view = synthetic_view(20, 16)
    decided = Heet().decide(view)
    assert decided.value == pytest.approx(decision._best(view, decided), rel=2e-4)


def test_large_clusters_are_of_six_types() -> None:
    assert len(synthetic_view(3, 999).types) == 3
    view = synthetic_view(3, 1000)
    assert len(view.types) == 6
    assert sum(view.capacity) == sum(map(sum, view.nodes)) == 1000
