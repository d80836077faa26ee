from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.errors import InputError
from staves.estimation import (
    Cell,
    CollaborativeFilter,
    FilteredRates,
    History,
    Measured,
    Prediction,
    cells_of,
)
from staves.estimation.filtering import CellSpace
from staves.estimation.filtering._filter import _telling
from staves.estimation.filtering._kernel import combined, parts
from tests.estimation.filtering.worlds import CELLS, observed, space

seeds = st.integers(0, 2**32 - 1)


def draws(rng: np.random.Generator, jobs: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return ln(throughput) of jobs drawn from the kernel itself, (J, C)."""
    variances = {"job": 1.0, "type": 0.1, "devices": 0.02, "nodes": 0.05, "cell": 0.005}
    kernel = combined(parts(space()), variances)
    drawn: np.ndarray[tuple[int, int], np.dtype[np.float64]] = (
        rng.normal(size=(jobs, len(CELLS))) @ np.linalg.cholesky(kernel).T
    )
    return drawn + space().start


def ordered() -> tuple[Cell, ...]:
    return space().cells


@pytest.fixture(scope="module")
def world() -> tuple[CollaborativeFilter, np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    rng = np.random.default_rng(0)
    values = draws(rng, 60)
    mask = rng.random((40, len(CELLS))) < 0.6
    model = CollaborativeFilter.fit(observed(values[:40], ordered(), mask), CELLS)
    return model, values[40:]


def measured_of(
    truth: np.ndarray[tuple[int], np.dtype[np.float64]], cells: list[Cell]
) -> dict[Cell, Measured]:
    index = space().index(cells)
    return {cell: Measured(float(truth[i])) for cell, i in zip(cells, index, strict=True)}


def test_intervals_hold_what_they_promise(
    world: tuple[CollaborativeFilter, np.ndarray[tuple[int, int], np.dtype[np.float64]]],
) -> None:
    model, truths = world
    rng = np.random.default_rng(1)
    inside, errors, spreads = [], [], []
    for truth in truths:
        seen = [ordered()[i] for i in rng.permutation(len(CELLS))[: int(rng.integers(1, 8))]]
        unseen = [cell for cell in CELLS if cell not in seen]
        found = model.predict(measured_of(truth, seen), unseen)
        low, high = found.interval(0.9)
        values = np.exp(truth[space().index(unseen)])
        inside.append((low <= values) & (values <= high))
        errors.append(np.abs(np.log(found.throughput / values)))
        spreads.append(np.abs(truth[space().index(unseen)] - truths.mean()))
    assert 0.8 < np.concatenate(inside).mean() < 0.98
    assert np.median(np.concatenate(errors)) < 0.3 * np.median(np.concatenate(spreads))


def test_probes_make_it_surer_and_better(
    world: tuple[CollaborativeFilter, np.ndarray[tuple[int, int], np.dtype[np.float64]]],
) -> None:
    model, truths = world
    errors: dict[int, list[float]] = {1: [], 6: []}
    for truth in truths:
        measured: dict[Cell, Measured] = {}
        for probes in range(1, 7):
            probe = model.next_probe(measured, CELLS)
            assert probe is not None
            before = model.jobs.given(space().index(measured), np.zeros(len(measured)), 1e-4)
            measured |= measured_of(truth, [probe.cell])
            after = model.jobs.given(space().index(measured), np.zeros(len(measured)), 1e-4)
            assert after.variance.sum() < before.variance.sum()
            if probes in errors:
                error = np.abs(model.predict(measured).mean - truth)
                errors[probes].append(float(np.median(error)))
    assert np.median(errors[6]) < 0.7 * np.median(errors[1])


def test_what_was_measured_is_believed(
    world: tuple[CollaborativeFilter, np.ndarray[tuple[int, int], np.dtype[np.float64]]],
) -> None:
    model, truths = world
    seen = [ordered()[i] for i in (0, 5, 9)]
    found = model.predict(measured_of(truths[0], seen), seen)
    np.testing.assert_allclose(found.mean, truths[0][[0, 5, 9]], atol=0.02)
    assert found.cells == tuple(seen)


@given(seeds)
@settings(max_examples=10)
def test_units_make_no_difference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = draws(rng, 5)
    mask = rng.random(values.shape) < 0.6
    mask[:, 0] = True
    factor = float(rng.uniform(-9, 9))
    found = []
    for shift in (0.0, factor):
        model = CollaborativeFilter.fit(observed(values + shift, ordered(), mask), CELLS)
        new = measured_of(values[0] + 0.1 + shift, [ordered()[2]])
        found.append(model.predict(new).mean - shift)
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)


@pytest.mark.parametrize("jobs", [0, 1, 2, 3])
def test_short_histories_are_enough(jobs: int) -> None:
    values = draws(np.random.default_rng(jobs), 4)
    mask = np.zeros((jobs, len(CELLS)), dtype=bool)
    mask[:, :3] = True
    model = CollaborativeFilter.fit(observed(values[:jobs], ordered(), mask), CELLS)
    nothing = model.predict({})
    assert np.isfinite(nothing.mean).all()
    something = model.predict(measured_of(values[3], [ordered()[0]]))
    assert (something.variance < nothing.variance).all()
    # Of one job on one device, so many more are known to be so much faster at most.
    eight = something.mean[space().index([Cell("v100", 8, 1)])[0]]
    one = something.mean[space().index([Cell("v100", 1, 1)])[0]]
    assert 0 < eight - one < 1.5 * math.log(8)


def test_a_type_without_history_goes_by_its_peak() -> None:
    values = draws(np.random.default_rng(8), 20)
    mask = np.ones(values.shape, dtype=bool)
    new = [Cell("h100", 1), Cell("h100", 2), Cell("unheard-of", 1)]
    model = CollaborativeFilter.fit(observed(values, ordered(), mask), [*CELLS, *new])
    found = model.predict(measured_of(values[0], [Cell("v100", 1)]), [Cell("k80", 1), *new])
    assert found.throughput[1] > 3 * found.throughput[0]
    assert found.throughput[2] > found.throughput[1]
    assert found.log_std[1] > found.log_std[0]


def test_cells_that_it_does_not_know_are_refused() -> None:
    model = CollaborativeFilter.fit(History(), [Cell("t4", 1)])
    with pytest.raises(InputError, match="has no cell"):
        model.predict({}, [Cell("t4", 2)])
    elsewhere = {Cell("t4", 2): Measured(1.0)}
    np.testing.assert_array_equal(model.predict(elsewhere).mean, model.predict({}).mean)
    with pytest.raises(InputError, match="name a configuration"):
        CollaborativeFilter.fit(History())
    with pytest.raises(InputError, match="3 nodes"):
        Cell("t4", 2, 3)


def test_levels_of_intervals_are_probabilities() -> None:
    found = Prediction((Cell("t4", 1),), np.array([1.0]), np.array([0.04]))
    low, high = found.interval(0.6826894921370859)  # of one standard deviation
    np.testing.assert_allclose([low[0], high[0]], [math.exp(0.8), math.exp(1.2)])
    for level in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="level"):
            found.interval(level)


def test_histories_take_rounds() -> None:
    cell = Cell("t4", 1)
    rounds = [("a", cell, 2.0), ("a", cell, 8.0), ("b", cell, 3.0)]
    history = History.of(rounds)
    grown = History()
    for job, where, throughput in rounds:
        grown = grown.with_round(job, where, throughput)
    assert history.of_job("a")[cell].rounds == 2
    assert math.exp(history.of_job("a")[cell].log_throughput) == pytest.approx(4.0)
    assert grown.of_job("a")[cell].log_throughput == pytest.approx(math.log(4.0))
    assert history.without(["a"]).jobs.keys() == {"b"}
    assert history.cells == {cell}
    assert history.of_job("c") == {}
    for bad in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(InputError, match="throughput"):
            history.with_round("a", cell, bad)


def test_rates_are_those_of_packed_cells() -> None:
    types, sizes = ("v100", "t4"), (2, 4)
    cells = cells_of(types, sizes, 4)
    assert Cell("v100", 3, 2) in cells
    assert len(cells) == len(set(cells))
    model = CollaborativeFilter.fit(History(), cells)
    measured = {Cell("v100", 1): Measured(math.log(10.0))}
    rates = FilteredRates(model, measured, types, sizes)
    wanted = [Cell("v100", 3, 2), Cell("t4", 4, 1), Cell("v100", 4, 2)]
    pure = model.predict(measured, wanted).throughput
    found = rates(np.array([[3, 0], [0, 4], [0, 0], [1, 3]]))
    np.testing.assert_allclose(found, [pure[0], pure[1], 0.0, pure[2] / 4 + pure[1] * 3 / 4])
    careful = FilteredRates(model, measured, types, sizes, caution=1.0)
    deviation = model.predict(measured, wanted).log_std[0]
    np.testing.assert_allclose(careful(np.array([[3, 0]])), pure[0] * np.exp(-deviation))
    _, small, large = model.predict(measured, wanted).log_std
    share = pure[2] / (pure[2] + 3 * pure[1])  # of the throughput of 1 + 3 devices
    np.testing.assert_allclose(
        rates.log_std(np.array([[3, 0], [0, 0], [1, 3]])),
        [deviation, 0.0, share * large + (1 - share) * small],
    )
    with pytest.raises(InputError, match="no cell of 5 'v100'"):
        rates(np.array([[5, 0]]))
    with pytest.raises(InputError, match="sizes of nodes"):
        FilteredRates(model, measured, types, (2,))
    with pytest.raises(InputError, match="a device at least"):
        cells_of(types, (2, 0), 4)


def test_rates_between_known_numbers_of_devices_are_lines_in_logarithms() -> None:
    cells = cells_of(("t4",), (4,), 64)
    assert [cell.devices for cell in cells] == [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64]
    assert cells[4] == Cell("t4", 5, 2)
    model = CollaborativeFilter.fit(History(), [*cells, Cell("t4", 40, 10), Cell("t4", 7, 7)])
    rates = FilteredRates(model, {}, ("t4",), (4,))
    eight, forty = model.predict({}, [cells[6], Cell("t4", 40, 10)]).throughput
    found = rates(np.array([[7], [8], [10], [12], [40], [6]]))
    assert found[1] == pytest.approx(eight)
    assert found[4] == pytest.approx(forty)
    share = math.log(10 / 8) / math.log(12 / 8)
    assert found[2] == pytest.approx(found[1] ** (1 - share) * found[3] ** share)
    share = math.log(7 / 6) / math.log(8 / 6)  # seven apart are not seven packed
    assert found[0] == pytest.approx(found[5] ** (1 - share) * found[1] ** share)


def test_of_a_long_history_those_jobs_count_that_tell_most() -> None:
    short, long = [Cell("t4", 1)], [Cell("t4", 1), Cell("t4", 2)]
    jobs = {f"{j}": {cell: Measured(1.0) for cell in short} for j in range(60)}
    jobs |= {f"{j}": {cell: Measured(1.0) for cell in long} for j in range(60, 120)}
    told = _telling(History(jobs), [])
    assert len(told.jobs) == 100
    assert set(told.jobs) == {str(j) for j in range(20, 120)}  # the longer ones, and the latest


def test_of_a_wide_history_the_types_count_that_are_asked_for() -> None:
    wide = [Cell("other", devices) for devices in range(1, 200)]
    jobs = {
        "a": {cell: Measured(1.0) for cell in [*wide, Cell("t4", 1)]},
        "b": {cell: Measured(1.0) for cell in wide},
    }
    told = _telling(History(jobs), [Cell("t4", 2)])
    assert told.cells == {Cell("t4", 1)}
    assert set(told.jobs) == {"a"}
    assert _telling(History(jobs), []).cells == {*wide, Cell("t4", 1)}


def test_the_space_is_the_same_in_any_order() -> None:
    assert CellSpace(reversed(CELLS)).cells == CellSpace([*CELLS, *CELLS]).cells == ordered()
