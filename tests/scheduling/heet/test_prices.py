from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.scheduling.heet._prices import prices
from staves.scheduling.heet._relaxation import Instance
from tests.scheduling.heet.instances import many, solved

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 60), st.integers(1, 6), st.booleans())
@settings(max_examples=80, deadline=None)
def test_the_bound_is_that_of_the_relaxation_or_little_more(
    seed: int, jobs: int, types: int, alike: bool
) -> None:
    problem = many(seed, jobs, types=types, alike=alike)
    found = prices(problem, 1e-4)
    best = solved(problem, whole=False)
    assert (found.of_types >= 0).all()
    assert found.bound >= best * (1 - 1e-7)
    assert found.bound <= best * (1 + 1e-4 + 1e-7)


@given(seeds)
@settings(max_examples=50, deadline=None)
def test_the_bound_is_what_jobs_gain_at_the_prices_and_the_devices_cost(seed: int) -> None:
    problem = many(seed, 20)
    found = prices(problem, 1e-3)
    gain = np.zeros(20)
    np.maximum.at(gain, problem.owner, problem.utility - problem.counts @ found.of_types)
    assert found.bound == pytest.approx(gain.sum() + found.of_types @ problem.capacity)


def test_what_is_plenty_costs_nothing() -> None:
    problem = many(1, 10)
    plenty = Instance(problem.utility, problem.counts, problem.owner, 10, problem.capacity + 10_000)
    assert (prices(plenty, 0.0).of_types == 0).all()


def test_jobs_that_have_no_columns_are_passed_over() -> None:
    counts = np.array([[1], [2], [1]])
    problem = Instance(np.array([3.0, 4.0, 2.0]), counts, np.array([1, 1, 4]), 6, np.array([1]))
    assert prices(problem, 1e-9).bound == pytest.approx(3.0)


def test_nothing_to_buy_is_worth_nothing() -> None:
    empty = Instance(
        np.zeros(0),
        np.zeros((0, 2), dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        3,
        np.array([1, 1]),
    )
    assert prices(empty, 0.0).bound == 0
