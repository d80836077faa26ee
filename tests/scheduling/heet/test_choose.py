from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from staves.scheduling.heet._choose import Choices, choose
from staves.scheduling.heet._configurations import contained, undominated

seeds = st.integers(0, 2**32 - 1)


def instance(
    rng: np.random.Generator, *, must: float = 0.0
) -> tuple[list[Choices], tuple[int, ...]]:
    types = int(rng.integers(1, 4))
    capacity = tuple(rng.integers(0, 6, types).tolist())
    jobs = []
    for _ in range(int(rng.integers(1, 5))):
        table = rng.integers(0, 4, (int(rng.integers(0, 7)), types))
        table = table[table.any(axis=1) & (table <= np.array(capacity)).all(axis=1)]
        utility = 10 ** rng.uniform(-3, 3, len(table))
        jobs.append(Choices(table, utility, must=bool(rng.random() < must)))
    return jobs, capacity


def by_force(jobs: list[Choices], capacity: tuple[int, ...]) -> tuple[int, float]:
    """The most jobs that must have something and can together, and the best sum with as many."""
    best = (0, 0.0)
    options = [[None, *range(len(job.utility))] for job in jobs]
    for rows in itertools.product(*options):
        taken = [(job, row) for job, row in zip(jobs, rows, strict=True) if row is not None]
        used = sum((job.table[row] for job, row in taken), np.zeros(len(capacity), dtype=int))
        if (used <= np.array(capacity)).all():
            kept = sum(job.must for job, _ in taken)
            best = max(best, (kept, math.fsum(job.utility[row] for job, row in taken)))
    return best


@given(seeds)
@settings(max_examples=300)
def test_the_choice_is_the_best_of_all(seed: int) -> None:
    jobs, capacity = instance(np.random.default_rng(seed))
    result = choose(jobs, capacity)
    used = np.zeros(len(capacity), dtype=int)
    value = 0.0
    for job, row in zip(jobs, result.rows, strict=True):
        if row is not None:
            used += job.table[row]
            value += job.utility[row]
    assert (used <= np.array(capacity)).all()
    assert result.value == pytest.approx(value)
    assert result.value == pytest.approx(by_force(jobs, capacity)[1], rel=1e-7)


@given(seeds)
@settings(max_examples=150)
def test_the_bound_is_that_of_the_relaxation(seed: int) -> None:
    jobs, capacity = instance(np.random.default_rng(seed))
    columns = [(j, row) for j, job in enumerate(jobs) for row in range(len(job.utility))]
    result = choose(jobs, capacity)
    assert result.value <= result.bound
    if not columns:
        assert result.bound == 0
        return
    one_each = [[float(j == k) for j, _ in columns] for k in range(len(jobs))]
    used = [[float(jobs[j].table[row, g]) for j, row in columns] for g in range(len(capacity))]
    relaxed = linprog(
        [-jobs[j].utility[row] for j, row in columns],
        A_ub=np.array(one_each + used),
        b_ub=np.array([1.0] * len(jobs) + list(capacity)),
        bounds=(0, None),
    )
    assert relaxed.fun is not None
    assert result.bound == pytest.approx(-relaxed.fun, rel=1e-7)


@given(seeds)
@settings(max_examples=300)
def test_as_many_as_can_of_those_that_must_have_something_do(seed: int) -> None:
    jobs, capacity = instance(np.random.default_rng(seed), must=0.6)
    result = choose(jobs, capacity)
    kept = sum(job.must and row is not None for job, row in zip(jobs, result.rows, strict=True))
    most, _ = by_force(jobs, capacity)
    assert kept == most


@given(seeds)
@settings(max_examples=100)
def test_leaving_out_what_is_dominated_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, capacity = instance(rng)
    fewer = []
    for job in jobs:
        once = np.sort(np.unique(job.table, axis=0, return_index=True)[1])
        job = Choices(job.table[once], job.utility[once], job.must)
        utility = np.round(job.utility, 1) + 0.1  # ties, too
        mask = undominated(utility, contained(job.table))
        for row in range(len(utility)):
            beaten = [
                k
                for k in range(len(utility))
                if k != row
                and (job.table[k] <= job.table[row]).all()
                and utility[k] >= utility[row]
            ]
            assert mask[row] == (not any(mask[k] for k in beaten))
            assert mask[row] or any(mask[k] for k in beaten)
        fewer.append(Choices(job.table[mask], utility[mask]))
        jobs[len(fewer) - 1] = Choices(job.table, utility)
    assert choose(fewer, capacity).value == pytest.approx(choose(jobs, capacity).value, rel=1e-7)
