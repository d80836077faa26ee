"""Linear programmes against another method, integer ones against all whole numbers."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from staves.errors import StavesError
from staves.scheduling._programme import Matrix, Optimum, matrix, minimise

Array = NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)


class Random:
    """A small programme; with limits from below as well, some of which no x keeps to."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        rows, columns = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        self.cost = rng.uniform(-2.0, 1.0, columns)
        self.dense = rng.uniform(-0.5, 2.0, (rows, columns)) * (rng.random((rows, columns)) < 0.7)
        self.columns = np.zeros(columns), rng.uniform(0.5, 4.0, columns)
        most = rng.uniform(0.0, 4.0, rows)
        least = np.where(rng.random(rows) < 0.3, most - rng.uniform(0.0, 2.0, rows), -np.inf)
        self.rows = least, most

    def solved(self, gap: float | None = None) -> Optimum | None:
        return minimise(self.cost, stated(self.dense), self.columns, self.rows, gap=gap)

    def keeps_to(self, x: NDArray[Any]) -> bool:
        within = self.dense @ x
        return bool(
            (x >= self.columns[0] - 1e-6).all()
            and (x <= self.columns[1] + 1e-6).all()
            and (within >= self.rows[0] - 1e-6).all()
            and (within <= self.rows[1] + 1e-6).all()
        )


def stated(dense: Array) -> Matrix:
    rows = np.broadcast_to(np.arange(len(dense)), dense.T.shape)
    return matrix([(rows, dense.T)])


@given(seeds)
@settings(max_examples=300, deadline=None)
def test_a_linear_programme_costs_what_another_solver_finds(seed: int) -> None:
    one = Random(seed)
    found = one.solved()
    below = np.isfinite(one.rows[0])
    other = linprog(
        one.cost,
        A_ub=np.concatenate([one.dense, -one.dense[below]]),
        b_ub=np.concatenate([one.rows[1], -one.rows[0][below]]),
        bounds=list(zip(*one.columns, strict=True)),
        method="highs-ipm",
    )
    assert (found is None) == (other.status == 2)
    if found is not None:
        assert one.keeps_to(found.x)
        assert found.cost == pytest.approx(float(one.cost @ found.x), abs=1e-9)
        assert found.cost == pytest.approx(other.fun, abs=1e-7)


@given(seeds)
@settings(max_examples=300, deadline=None)
def test_prices_prove_that_nothing_costs_less(seed: int) -> None:
    """Weak duality: prices of limits bound the cost of every x, and here the bound is reached."""
    one = Random(seed)
    found = one.solved()
    if found is None:
        return
    low, high = one.rows
    # A price above 0 is of a limit from below, one below 0 of one from above.
    limit = np.where(found.prices > 0, np.where(np.isfinite(low), low, 0.0), high)
    assert (found.prices[~np.isfinite(low)] <= 1e-7).all()
    reduced = one.cost - found.prices @ one.dense
    bound = found.prices @ limit + np.minimum(reduced * one.columns[1], 0.0).sum()
    assert bound == pytest.approx(found.cost, abs=1e-6)


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_an_integer_programme_costs_as_little_as_any_whole_numbers(seed: int) -> None:
    one = Random(seed)
    found = one.solved(gap=1e-9)
    every = np.array(list(itertools.product(*(range(int(top) + 1) for top in one.columns[1]))))
    costs = [float(one.cost @ x) for x in every if one.keeps_to(x)]
    assert (found is None) == (not costs)
    if found is not None:
        assert one.keeps_to(found.x)
        assert np.abs(found.x - found.x.round()).max() <= 1e-6
        assert found.cost == pytest.approx(min(costs), abs=1e-5)
        assert found.prices.size == 0


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_a_matrix_of_blocks_is_its_columns_side_by_side(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 7))
    blocks, beside = [], []
    for _ in range(int(rng.integers(1, 4))):
        columns, most = int(rng.integers(0, 4)), int(rng.integers(1, rows + 1))
        order = np.argsort(rng.random((columns, rows)), axis=1)[:, :most]
        values = rng.normal(size=(columns, most)) * (rng.random((columns, most)) < 0.7)
        dense = np.zeros((rows, columns))
        np.put_along_axis(dense.T, order, values, axis=1)
        blocks.append((order, values))
        beside.append(dense)
    made = matrix(blocks)
    expected = np.concatenate(beside, axis=1)
    back = np.zeros_like(expected)
    for c, (start, stop) in enumerate(zip(made.starts[:-1], made.starts[1:], strict=True)):
        back[made.rows[start:stop], c] = made.values[start:stop]
    assert len(made.starts) == expected.shape[1] + 1
    assert (back == expected).all()
    assert len(made.values) == np.count_nonzero(expected)


@pytest.mark.parametrize("gap", [None, 1e-9])
def test_a_programme_without_an_optimum_is_an_error(gap: float | None) -> None:
    one, endless = np.ones(1), np.full(1, np.inf)
    with pytest.raises(StavesError, match="not solved"):
        minimise(-one, stated(-np.ones((1, 1))), (0 * one, endless), (-endless, one), gap=gap)


@pytest.mark.parametrize("part", range(6))
def test_numbers_that_are_none_are_an_error(part: int) -> None:
    numbers = [np.ones(1) for _ in range(6)]
    numbers[part] *= np.nan
    cost, value, low, high, least, most = numbers
    with pytest.raises(StavesError, match="not solved"):
        minimise(cost, stated(value[None]), (low, high), (least, most))


def test_a_row_that_is_not_there_is_an_error() -> None:
    one = np.ones(1)
    with pytest.raises(StavesError, match="not solved"):
        minimise(one, matrix([(np.array([[5]]), one[None])]), (0 * one, one), (0 * one, one))


def test_nothing_is_printed() -> None:
    code = (
        "import numpy as np; from staves.scheduling._programme import matrix, minimise\n"
        "one = np.ones(1); made = matrix([(np.zeros((1, 1), dtype=int), np.ones((1, 1)))])\n"
        "for gap in (None, 1e-9): minimise(-one, made, (0 * one, one), (0 * one, one), gap=gap)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout + done.stderr == ""
