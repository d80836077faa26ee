"""The small simplex and the search at its prices, against a general solver and brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from staves.scheduling.heet import _choose
from staves.scheduling.heet._market import decide
from staves.scheduling.heet._relaxation import Instance, relax
from staves.scheduling.heet._search import search

Mask = NDArray[np.bool_]

seeds = st.integers(0, 2**32 - 1)


def instance(rng: np.random.Generator, most_jobs: int, *, ties: bool) -> Instance:
    """Draw jobs of up to six configurations; with ties, of few different utilities."""
    types = int(rng.integers(1, 4))
    capacity = rng.integers(0, 9, types)
    utility, counts, owner = [], [], []
    jobs = int(rng.integers(1, most_jobs + 1))
    for job in range(jobs):
        table = rng.integers(0, 5, (int(rng.integers(0, 7)), types))
        table = table[table.any(axis=1) & (table <= capacity).all(axis=1)]
        counts += table.tolist()
        owner += [job] * len(table)
        drawn = rng.integers(-2, 8, len(table)) / 10 if ties else rng.uniform(-0.2, 1, len(table))
        utility += drawn.tolist()
    shape = np.array(counts, dtype=np.int64).reshape(len(counts), types)
    return Instance(np.array(utility), shape, np.array(owner, dtype=np.int64), jobs, capacity)


@given(seeds, st.booleans())
@settings(max_examples=300, deadline=None)
def test_shares_and_prices_are_those_of_a_best_relaxation(seed: int, ties: bool) -> None:
    """Feasible both, and worth the same: neither can then be better. A solver says so as well."""
    problem = instance(np.random.default_rng(seed), 8, ties=ties)
    found = relax(problem)
    assert found is not None
    assert (found.shares >= 0).all()
    assert (np.bincount(problem.owner, found.shares, problem.jobs) <= 1 + 1e-9).all()
    assert (problem.counts.T @ found.shares <= problem.capacity + 1e-9).all()
    assert (found.prices >= 0).all()
    best = np.zeros(problem.jobs)
    np.maximum.at(best, problem.owner, problem.utility - problem.counts @ found.prices)
    value = float(problem.utility @ found.shares)
    assert abs(best.sum() + found.prices @ problem.capacity - value) < 1e-7
    if len(problem.utility):
        each = np.arange(problem.jobs)[:, None] == problem.owner
        solved = linprog(
            -problem.utility,
            A_ub=np.concatenate([each, problem.counts.T]),
            b_ub=np.concatenate([np.ones(problem.jobs), problem.capacity]),
        )
        assert solved.fun is not None
        assert abs(solved.fun + value) < 1e-7


@given(seeds, st.booleans())
@settings(max_examples=200, deadline=None)
def test_where_the_search_of_shares_begins_changes_no_sum(seed: int, ties: bool) -> None:
    """From a choice that fits, and from one that does not."""
    rng = np.random.default_rng(seed)
    problem = instance(rng, 8, ties=ties)
    begin, size = problem.runs
    some = rng.random(len(begin)) < 0.5
    start = (begin + rng.integers(0, np.maximum(size, 1)))[some]
    plain, begun = relax(problem), relax(replace(problem, start=start))
    assert plain is not None
    assert begun is not None
    assert abs(problem.utility @ (plain.shares - begun.shares)) < 1e-7


def demanding(rng: np.random.Generator, problem: Instance) -> Mask:
    """Draw jobs that must have something, out of those that have a column."""
    has = np.bincount(problem.owner, minlength=problem.jobs) > 0
    must: Mask = has & (rng.random(problem.jobs) < 0.5)
    return must


def best_choice(problem: Instance, must: Mask) -> float | None:
    """Return the most that whole choices are worth, by going through all; None where none fits."""
    options = [
        [*([] if must[job] else [-1]), *np.flatnonzero(problem.owner == job).tolist()]
        for job in range(problem.jobs)
    ]
    sums = []
    for rows in itertools.product(*options):
        taken = [row for row in rows if row >= 0]
        if (problem.counts[taken].sum(axis=0) <= problem.capacity).all():
            sums.append(float(problem.utility[taken].sum()))
    return max(sums, default=None)


@given(seeds, st.booleans())
@settings(max_examples=300, deadline=None)
def test_shares_of_jobs_that_must_have_something_add_up_to_one(seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = instance(rng, 8, ties=ties)
    must = demanding(rng, problem)
    found = relax(problem, must)
    if not len(problem.utility):
        return
    each = (np.arange(problem.jobs)[:, None] == problem.owner).astype(float)
    solved = linprog(
        -problem.utility,
        A_ub=np.concatenate([each, problem.counts.T, -each[must]]),
        b_ub=np.concatenate([np.ones(problem.jobs), problem.capacity, -np.ones(must.sum())]),
    )
    if solved.status == 2:  # they cannot all have something, even in shares
        assert found is None
        return
    assert found is not None
    assert solved.fun is not None
    assert (each[must] @ found.shares >= 1 - 1e-9).all()
    assert abs(solved.fun + problem.utility @ found.shares) < 1e-7


@given(seeds, st.booleans())
@settings(max_examples=300, deadline=None)
def test_decisions_are_best_whichever_way_they_are_found(seed: int, ties: bool) -> None:
    """Without the search, among the few columns that the prices of a first choice leave open."""
    rng = np.random.default_rng(seed)
    problem = instance(rng, 4, ties=ties)
    problem = replace(problem, utility=np.abs(problem.utility) + 0.01)  # as all that is weighed
    must = demanding(rng, problem)
    best = best_choice(problem, must)
    if best is None:
        return
    found = [decide(problem, must, np.zeros(0, dtype=np.int64))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_choose, "search", lambda *_: None)
        found.append(decide(problem, must, np.zeros(0, dtype=np.int64)))
    for one in found:
        have = np.bincount(problem.owner[one.columns], minlength=problem.jobs)
        assert (have <= 1).all()
        assert have[must].all()
        assert (problem.used(one.columns) <= problem.capacity).all()
        assert abs(problem.utility[one.columns].sum() - best) < 1e-7
        assert one.bound >= best - 1e-7


@given(seeds, st.booleans(), st.floats(0, 0.3))
@settings(max_examples=300, deadline=None)
def test_the_search_finds_a_best_choice_at_any_prices(seed: int, ties: bool, price: float) -> None:
    rng = np.random.default_rng(seed)
    problem = instance(rng, 4, ties=ties)
    must = demanding(rng, problem)
    found = search(problem, rng.uniform(0, price, len(problem.capacity)), must)
    best = best_choice(problem, must)
    if found is None:  # nothing is best, or the prices were too far off for the widest limit
        return
    assert best is not None
    assert np.bincount(problem.owner[found], minlength=problem.jobs)[must].all()
    assert (np.bincount(problem.owner[found], minlength=problem.jobs) <= 1).all()
    assert (problem.counts[found].sum(axis=0) <= problem.capacity).all()
    assert abs(float(problem.utility[found].sum()) - best) < 1e-9


def test_the_search_ends_at_the_prices_of_the_relaxation() -> None:
    """So that the test above does not pass for having found nothing."""
    rng = np.random.default_rng(5)
    ended = 0
    for _ in range(100):
        problem = instance(rng, 8, ties=True)
        relaxed = relax(problem)
        assert relaxed is not None
        ended += search(problem, relaxed.prices) is not None
    assert ended > 60
