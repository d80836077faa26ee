"""Cells of the estimator's history, from rounds and lines."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.estimation import Cell, Measured
from staves.service._history import history_documents, history_of
from staves.service._rows import MeasuredJob, Round


def knowledge(paces: dict[str, float], world_size: int, sync: float) -> dict[str, Any]:
    """Lines of so many seconds a sample and nothing fixed, all in the forward pass."""
    return {
        "lines": {f"type {name}": [[0, s, 0], [0, 0, 0]] for name, s in paces.items()},
        "ready": [1.0],
        "seconds": [sync],
        "world_size": world_size,
    }


def cells_of(rounds: list[Round], learned: dict[str, Any] | None) -> dict[Cell, Measured]:
    return dict(history_of([MeasuredJob("1", "ann", learned, tuple(rounds))]).of_job("1"))


def rate(cells: dict[Cell, Any], *cell: Any) -> float:
    return math.exp(cells[Cell(*cell)].log_throughput)


def test_without_lines_only_rounds_on_one_type_are_cells() -> None:
    rounds = [
        Round(1, 0, {"t4": 1}, 1, 32, 10.0),
        Round(1, 1, {"t4": 1, "v100": 1}, 2, 32, 30.0),
        Round(2, 0, {"t4": 2}, 1, 32, 18.0),
        Round(2, 1, {"t4": 1}, 1, 32, 40.0),
    ]
    cells = cells_of(rounds, None)
    assert set(cells) == {Cell("t4", 1, 1), Cell("t4", 2, 1)}
    assert rate(cells, "t4", 1, 1) == pytest.approx(20.0)  # the geometric mean
    assert cells[Cell("t4", 1, 1)].rounds == 2


@given(
    st.dictionaries(st.sampled_from(["t4", "v100", "k80"]), st.floats(1e-4, 1e-1), min_size=2),
    st.floats(0.0, 0.1),
)
def test_of_a_mixed_round_each_type_is_told_by_its_lines(
    paces: dict[str, float], sync: float
) -> None:
    mixed = dict.fromkeys(paces, 1)
    size = len(paces)
    cells = cells_of([Round(1, 0, mixed, 2, 96, 1.0)], knowledge(paces, size, sync))
    assert set(cells) == {Cell(name, n, m) for name in paces for n, m in ((1, 1), (size, 2))}
    for name, pace in paces.items():
        assert rate(cells, name, 1, 1) == pytest.approx(1 / pace)
        together = 96 / (96 / size * pace + sync)
        assert rate(cells, name, size, 2) == pytest.approx(together)


def test_what_was_measured_itself_counts_before_lines() -> None:
    rounds = [Round(1, 0, {"t4": 1}, 1, 32, 90.0), Round(1, 1, {"t4": 1, "k80": 1}, 2, 32, 1.0)]
    cells = cells_of(rounds, knowledge({"t4": 0.01, "k80": 0.05}, 2, 0.0))
    assert rate(cells, "t4", 1, 1) == pytest.approx(90.0)
    assert rate(cells, "k80", 1, 1) == pytest.approx(20.0)


def test_an_adaptive_job_is_told_at_its_newest_batch() -> None:
    rounds = [
        Round(1, 0, {"t4": 1}, 1, 32, 90.0),
        Round(1, 1, {"t4": 2}, 1, 64, 150.0),
        Round(1, 2, {"t4": 4}, 2, 64, 250.0),
    ]
    assert set(cells_of(rounds, None)) == {Cell("t4", 2, 1), Cell("t4", 4, 2)}
    fitted = cells_of(rounds, knowledge({"t4": 0.01}, 4, 0.0))
    assert set(fitted) == {Cell("t4", 1, 1), Cell("t4", 2, 1), Cell("t4", 4, 2)}


def test_rows_are_what_the_estimator_reads() -> None:
    one = MeasuredJob("7", "ann", None, (Round(1, 0, {"t4": 2}, 1, 32, 18.0),))
    none = MeasuredJob("8", "ann", None, (Round(1, 0, {"t4": 1, "k80": 1}, 1, 32, 18.0),))
    (row,) = history_documents([one, none])
    assert row == {
        "job": "7",
        "device_type": "t4",
        "devices": 2,
        "nodes": 1,
        "throughput": pytest.approx(18.0),
        "source": "measured",
    }


def test_rows_say_whether_they_were_measured_or_follow_from_the_model() -> None:
    rounds = (Round(1, 0, {"t4": 1}, 1, 32, 90.0), Round(1, 1, {"t4": 1, "k80": 1}, 2, 32, 1.0))
    job = MeasuredJob("7", "ann", knowledge({"t4": 0.01, "k80": 0.05}, 2, 0.0), rounds)
    told = {(row["device_type"], row["devices"]): row["source"] for row in history_documents([job])}
    assert told == {
        ("t4", 1): "measured",
        ("k80", 1): "model",
        ("t4", 2): "model",
        ("k80", 2): "model",
    }


def test_knowledge_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="malformed"):
        cells_of([Round(1, 0, {"t4": 1}, 1, 32, 1.0)], {"lines": 3})
