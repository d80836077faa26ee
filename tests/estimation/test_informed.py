"""Beliefs of a job by its own lines and past jobs: each where it knows more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.estimation import (
    LINES_LOG_STD,
    Cell,
    CollaborativeFilter,
    FilteredRates,
    History,
    InformedRates,
    JobProfile,
    Measured,
    cells_of,
    worth_measuring,
)
from staves.steptime import Communication, Line

TYPES, SIZES = ("old", "mid", "new"), (2, 2, 4)
SPEEDS = {"old": 1.0, "mid": 4.0, "new": 20.0}
BATCH = 64


def past(jobs: int = 8, seed: int = 0) -> CollaborativeFilter:
    """Return what jobs teach of which each is about `SPEEDS` fast, in a unit of its own."""
    rng = np.random.default_rng(seed)
    rounds = []
    for j in range(jobs):
        level, loss = 10 ** rng.uniform(-1, 1), rng.uniform(0.02, 0.2)
        for cell in cells_of(TYPES, SIZES, 8):
            speed = SPEEDS[cell.device_type] * math.exp(rng.normal(0, 0.02))
            rate = level * speed * cell.devices ** (1 - loss)
            rounds.append((f"job-{j}", cell, rate))
    return CollaborativeFilter.fit(History.of(rounds), cells_of(TYPES, SIZES, 8))


MODEL = past()


def lines(speed: float) -> tuple[Line, Line]:
    return Line(0.0, 0.3 / speed), Line(0.0, 0.7 / speed)


def profile(*types: str, together: bool = True) -> JobProfile:
    known = {name: lines(SPEEDS[name]) for name in types}
    sync = Communication((1.0,), (0.01,)) if together else None
    return JobProfile(BATCH, known, sync, 2 if together else 1, {"old": (0, BATCH // 2)})


def informed(of: JobProfile, measured: dict[Cell, Measured]) -> InformedRates:
    return InformedRates(of, MODEL, measured, TYPES, SIZES)


def at(cell: Cell, rate: float) -> dict[Cell, Measured]:
    return {cell: Measured(math.log(rate))}


configurations = st.lists(
    st.tuples(*[st.integers(0, 2)] * 3).filter(any), min_size=1, max_size=6
).map(lambda rows: np.array(rows, dtype=np.int64))


@given(configurations)
@settings(max_examples=30)
def test_types_that_were_measured_keep_their_lines(table: np.ndarray) -> None:
    own = profile("mid", "new")
    rates = informed(own, at(Cell("mid", 1), 4.0))
    table[:, 0] = 0  # the type that it has no lines of
    np.testing.assert_array_equal(rates(table), own.rates(TYPES, {})(table))


def test_a_type_without_lines_goes_by_past_jobs() -> None:
    own = profile("mid")
    rates = informed(own, at(Cell("mid", 1), 4.0))
    (alone,) = rates(np.array([[0, 0, 1]]))
    assert alone == pytest.approx(SPEEDS["new"], rel=0.1)
    (blind,) = own.rates(TYPES, {})(np.array([[0, 0, 1]]))
    assert blind == pytest.approx(SPEEDS["mid"], rel=0.1)  # what it was taken for before
    # Mixed devices are split as the lines want it: together they do what each does alone, less
    # the time that gradients take.
    (mixed,) = rates(np.array([[0, 1, 1]]))
    ratio = alone / SPEEDS["mid"]
    expected = BATCH / (BATCH / (SPEEDS["mid"] * (1 + ratio)) + 0.01)
    assert mixed == pytest.approx(expected, rel=0.05)  # in whole samples
    assert mixed <= expected


@given(configurations)
@settings(max_examples=30)
def test_how_several_scale_is_told_by_past_jobs_until_they_have_run(table: np.ndarray) -> None:
    rates = informed(profile("mid", together=False), at(Cell("mid", 1), 4.0))
    level = math.exp(MODEL.jobs.mean[MODEL.space.index([Cell("mid", 1)])[0]])
    filtered = FilteredRates(MODEL, at(Cell("mid", 1), level), TYPES, SIZES)
    # One device of the small type cannot hold the batch.
    runs = ~((table[:, 0] == 1) & (table.sum(axis=1) == 1))
    expected = np.where(runs, filtered(table) * 4.0 / level, 0.0)
    np.testing.assert_allclose(rates(table), expected)
    np.testing.assert_allclose(rates.log_std(table), filtered.log_std(table))


def test_the_unit_of_its_samples_makes_no_difference() -> None:
    """Past jobs of one script have one level: another script's job is not slow for that."""
    ladder = cells_of(TYPES, SIZES, 8)
    alike = [
        (f"job-{j}", cell, SPEEDS[cell.device_type] * cell.devices**0.9)
        for j in range(4)
        for cell in ladder
    ]
    model = CollaborativeFilter.fit(History.of(alike), ladder)
    table = np.array([[0, 1, 0], [0, 2, 0], [0, 0, 4]])
    for unit in (1e-3, 1.0, 1e3):
        own = profile("mid", together=False)
        rates = InformedRates(own, model, at(Cell("mid", 1), 4 * unit), TYPES, SIZES)
        expected = np.array([4.0, 4 * 2**0.9, 20 * 4**0.9]) * unit
        np.testing.assert_allclose(rates(table), expected, rtol=0.05)


def test_a_stranger_goes_by_past_jobs_alone() -> None:
    rates = informed(JobProfile(BATCH), {})
    slow, fast = rates(np.array([[1, 0, 0], [0, 0, 1]]))
    assert fast / slow == pytest.approx(20.0, rel=0.1)
    assert (rates.log_std(np.array([[1, 0, 0]])) > 0.5).all()  # its unit may be any


@given(configurations)
@settings(max_examples=30)
def test_of_mixed_devices_doubt_lies_between_that_of_their_types(table: np.ndarray) -> None:
    rates = informed(profile("mid"), at(Cell("mid", 1), 4.0))
    alone = rates.log_std(np.eye(3, dtype=np.int64))
    assert alone[1] == LINES_LOG_STD
    assert min(alone[0], alone[2]) > 0
    for row, doubt in zip(table, rates.log_std(table), strict=True):
        its = alone[row > 0]
        assert its.min() - 1e-12 <= doubt <= its.max() + 1e-12
    assert rates.log_std(np.zeros((1, 3), dtype=np.int64)).tolist() == [0.0]


def test_probes_stop_where_they_cost_more_than_they_avert() -> None:
    measured = at(Cell("mid", 1), 4.0)
    free = worth_measuring(MODEL, measured, ("old", "new"), 0.0)
    assert set(free) == {"old", "new"}
    assert worth_measuring(MODEL, measured, ("old", "new"), 1.0) == ()
    # The first is the one that alone leaves the least to doubt.
    left = {
        name: MODEL.jobs.given(
            MODEL.space.index([Cell("mid", 1), Cell(name, 1)]), np.zeros(2), 1e-4
        ).variance[MODEL.space.index([Cell("old", 1), Cell("new", 1)])]
        for name in ("old", "new")
    }
    assert free[0] == min(left, key=lambda name: float(left[name].sum()))
    assert worth_measuring(MODEL, measured, ("mid",), 0.0) == ()  # it was measured
    sizes = [len(worth_measuring(MODEL, {}, TYPES, cost)) for cost in (0.0, 0.01, 0.1, 1.0)]
    assert sizes == sorted(sizes, reverse=True)


def test_no_past_job_alike_makes_probes_worth_more() -> None:
    nothing = CollaborativeFilter.fit(History(), cells_of(TYPES, SIZES, 8))
    measured = at(Cell("mid", 1), 4.0)
    assert set(worth_measuring(nothing, measured, ("old", "new"), 0.05)) == {"old", "new"}
    assert worth_measuring(MODEL, measured, ("old", "new"), 0.05) == ()
