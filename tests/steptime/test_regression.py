"""Lines through cells: how exact, how sure, where a floor shows, and what is expected of others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.steptime import Cell, Line, cells_of, fit_cells, pooled_shape


def measured(
    line: Line, batches: list[int], count: int, noise: float, seed: int
) -> tuple[Cell, ...]:
    random = np.random.default_rng(seed)
    repeated = np.repeat(batches, count)
    exact = np.array([line.seconds(b) for b in repeated])
    return cells_of(repeated, exact * np.exp(noise * random.standard_normal(len(repeated))))


@given(st.floats(0, 0.1), st.floats(0, 0.01), st.integers(1, 50), st.integers(1, 50))
def test_exact_measurements_give_the_line(fixed: float, slope: float, low: int, more: int) -> None:
    line = Line(fixed, slope)
    fit = fit_cells(measured(line, [low, low + more], 10, 0.0, 0)).line
    for batch in (low, low + more):
        assert fit.seconds(batch) == pytest.approx(line.seconds(batch), rel=1e-6, abs=1e-12)


def test_intervals_cover_as_often_as_they_say() -> None:
    line, inside, outside = Line(0.010, 0.0012), 0, 0
    for seed in range(300):
        fit = fit_cells(measured(line, [16, 26], 10, 0.05, seed))
        for batch in (12, 20, 40):
            low, high = fit.interval(batch)
            inside += low <= line.seconds(batch) <= high
            outside += not low <= line.seconds(batch) <= high
    assert 0.9 <= inside / (inside + outside) <= 0.995


def test_the_deviation_is_that_of_repeated_fits() -> None:
    line = Line(0.010, 0.0012)
    fits = [fit_cells(measured(line, [16, 26], 30, 0.05, seed)) for seed in range(300)]
    for batch in (16, 20, 40):
        spread = np.std([fit.line.seconds(batch) for fit in fits])
        told = np.mean([fit.deviation(batch) for fit in fits])
        assert told == pytest.approx(spread, rel=0.35)


def test_what_lies_far_from_all_measurements_is_less_sure() -> None:
    fit = fit_cells(measured(Line(0.01, 0.001), [16, 26], 10, 0.05, 1))
    widths = [fit.deviation(b) / fit.line.seconds(b) for b in (20, 60, 200)]
    assert widths[0] < widths[1] < widths[2]
    alone = fit_cells(measured(Line(0.01, 0.001), [16], 10, 0.05, 1))
    assert alone.deviation(64) > 5 * fit.deviation(64)


@given(st.integers(0, 1000), st.floats(0.012, 0.03), st.sampled_from([0.0, 0.01, 0.03]))
def test_a_floor_shows_in_four_batches(seed: int, floor: float, noise: float) -> None:
    line = Line(0.002, 0.001, floor=floor)
    fit = fit_cells(measured(line, [2, 6, 40, 60], 20, noise, seed)).line
    assert fit.floor == pytest.approx(floor, rel=0.05)
    for batch in (1, 4, 40, 50, 80):
        assert fit.seconds(batch) == pytest.approx(line.seconds(batch), rel=0.06)


@given(st.integers(0, 1000))
def test_noise_makes_no_floor(seed: int) -> None:
    line = Line(0.010, 0.001)
    fit = fit_cells(measured(line, [8, 16, 24, 40], 20, 0.02, seed)).line
    for batch in (4, 12, 60):
        assert fit.seconds(batch) == pytest.approx(line.seconds(batch), rel=0.06)


def test_near_batches_take_the_expected_shape_and_far_ones_their_own() -> None:
    truth, expected = Line(0.010, 0.001), Line(0.020, 0.002)  # twice as slow, of one shape
    near = [fit_cells(measured(truth, [30, 31], 10, 0.05, s), expected).line for s in range(40)]
    alone = [fit_cells(measured(truth, [30, 31], 10, 0.05, s)).line for s in range(40)]
    wrong = Line(0.010, 0.0)
    far = [fit_cells(measured(truth, [16, 60], 20, 0.02, s), wrong).line for s in range(40)]

    def error(lines: list[Line]) -> float:
        return float(np.sqrt(np.mean([(line.seconds(60) / 0.070 - 1) ** 2 for line in lines])))

    assert error(near) < 0.1 < error(alone)
    assert error(far) < 0.03


def test_one_batch_scales_the_expected_hinge() -> None:
    expected = Line(0.01, 0.001, floor=0.03)
    fit = fit_cells((Cell(40, 5, 0.1, 0.0),), expected).line
    assert (fit.fixed, fit.per_sample, fit.floor) == pytest.approx((0.02, 0.002, 0.06))
    fit = fit_cells((Cell(4, 5, 0.06, 0.0), Cell(40, 5, 0.1, 0.0)), expected).line
    assert fit.seconds(4) == pytest.approx(0.06)
    assert fit.seconds(40) == pytest.approx(0.1)


def test_the_pooled_shape_is_the_devices_common_share() -> None:
    lines = [Line(0.01 * factor, 0.001 * factor) for factor in (1, 2, 5)]
    tables = [measured(line, [10, 30], 20, 0.03, i) for i, line in enumerate(lines)]
    shape = pooled_shape([*tables, measured(Line(1.0, 0.0), [20], 5, 0.0, 9)])
    assert shape is not None
    assert shape.fixed / shape.seconds(20) == pytest.approx(1 / 3, abs=0.06)
    assert pooled_shape([measured(lines[0], [10], 5, 0.0, 0)]) is None
    assert pooled_shape([]) is None


def test_nothing_to_fit() -> None:
    with pytest.raises(InputError, match="no measurement"):
        fit_cells(())
