from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from staves.scheduling.gavel._centre import central_fractions
from staves.scheduling.gavel._programmes import (
    Problem,
    finish_time_fairness,
    makespan,
    max_min,
    max_sum,
)

Array = NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)


def random_problem(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    jobs, types = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    need = rng.choice([1.0, 1.0, 2.0, 4.0, 8.0], jobs)
    capacity = rng.integers(8, 30, types).astype(np.float64)
    rates = 10 ** rng.uniform(-1, 2, (jobs, types)) * (rng.random((jobs, types)) < 0.8)
    rates[rates.sum(axis=1) == 0, 0] = 1.0
    return Problem(
        rates,
        need,
        capacity,
        rng.choice([1.0, 2.0], jobs),
        10 ** rng.uniform(0, 5, jobs),
        10 ** rng.uniform(0, 4, jobs),
        10 ** rng.uniform(0, 4, jobs),
    )


def optimum(problem: Problem, gain: Array, scale: Array | None = None) -> float:
    """Return the best of gain x, or with `scale` of z <= throughput / scale, by dense simplex."""
    jobs, types = problem.rates.shape
    size = jobs * types
    rows, limits = [], []
    for j in range(jobs):
        row = np.zeros(size + 1)
        row[j * types : (j + 1) * types] = 1
        rows.append(row)
        limits.append(1.0)
        if scale is not None:
            row = np.zeros(size + 1)
            row[j * types : (j + 1) * types] = -problem.rates[j] / scale[j]
            row[-1] = 1
            rows.append(row)
            limits.append(0.0)
    for g in range(types):
        row = np.zeros(size + 1)
        row[g:size:types] = problem.need
        rows.append(row)
        limits.append(float(problem.capacity[g]))
    objective = np.append(-gain.ravel(), 0.0) if scale is None else np.append(np.zeros(size), -1.0)
    bounds = [(0.0, 1.0)] * size + [(0.0, None)]
    result = linprog(objective, A_ub=np.array(rows), b_ub=np.array(limits), bounds=bounds)
    assert result.fun is not None
    return -float(result.fun)


def check_feasible(problem: Problem, x: Array) -> None:
    assert (x >= -1e-9).all()
    assert (x.sum(axis=1) <= 1 + 1e-9).all()
    assert (problem.need @ x <= problem.capacity * (1 + 1e-6)).all()


def throughput(problem: Problem, x: Array) -> Array:
    total: Array = (problem.rates * x).sum(axis=1)
    return total


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_the_largest_sum(seed: int) -> None:
    problem = random_problem(seed)
    x = max_sum(problem)
    check_feasible(problem, x)
    value = problem.rates * problem.weights[:, None]
    assert (value * x).sum() == pytest.approx(optimum(problem, value), rel=1e-6)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_jobs_that_are_alike_have_equal_shares(seed: int) -> None:
    problem = random_problem(seed)
    twice = central_fractions(
        np.repeat(problem.rates, 2, axis=0), np.repeat(problem.need, 2), problem.capacity
    )
    assert twice[::2] == pytest.approx(twice[1::2], abs=1e-6)


def test_equal_types_are_shared_out_evenly() -> None:
    x = central_fractions(np.ones((3, 2)), np.ones(3), np.array([1.0, 1.0]))
    assert x == pytest.approx(np.full((3, 2), 1 / 3), abs=1e-6)


def test_no_devices_and_no_jobs() -> None:
    assert not central_fractions(np.ones((2, 1)), np.ones(2), np.zeros(1)).any()
    assert central_fractions(np.ones((0, 2)), np.ones(0), np.ones(2)).shape == (0, 2)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_the_largest_least(seed: int) -> None:
    problem = random_problem(seed)
    for x, scale in (
        (max_min(problem), problem.weights * problem.equal_rates / problem.need),
        (makespan(problem), problem.remaining),
    ):
        check_feasible(problem, x)
        least = float((throughput(problem, x) / scale).min())
        assert least == pytest.approx(optimum(problem, problem.rates, scale), rel=1e-5)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_jobs_alike_have_equal_shares(seed: int) -> None:
    problem = random_problem(seed)
    twice = replace(
        problem,
        **{
            each.name: np.repeat(getattr(problem, each.name), 2, axis=0)
            for each in fields(Problem)
            if each.name != "capacity"
        },
    )
    for allocate in (max_min, makespan, finish_time_fairness):
        x = allocate(twice)
        check_feasible(twice, x)
        assert (x[::2] == x[1::2]).all()


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_the_fairest_finish_times(seed: int) -> None:
    problem = random_problem(seed)
    x = finish_time_fairness(problem)
    check_feasible(problem, x)
    alone = (problem.done + problem.remaining) / problem.isolated_rates
    seconds = problem.age + problem.remaining / throughput(problem, x)
    rho = float((seconds / alone).max())
    left = 0.999 * rho * alone - problem.age
    # No allocation is fairer: either time has run out already, or none is fast enough.
    assert (left <= 0).any() or optimum(problem, problem.rates, problem.remaining / left) < 1


def test_shares_of_the_isolated_and_the_equal() -> None:
    rates = np.array([[1.0, 4.0], [2.0, 0.0]])
    ones = np.ones(2)
    problem = Problem(rates, np.array([1.0, 2.0]), np.array([1.0, 3.0]), ones, ones, ones, ones)
    assert problem.equal_rates == pytest.approx([(1 + 3 * 4) / 4, 2.0])
    # Half of each type: 1/2 and 3/2 devices, more than all of the time; and a quarter for two.
    assert problem.isolated_rates == pytest.approx([(0.5 * 1 + 1.5 * 4) / 2, 0.25 * 2])
