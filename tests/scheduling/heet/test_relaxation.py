"""The small simplex and the search at its prices, against a general solver and brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from staves.scheduling.heet._relaxation import Instance, relax
from staves.scheduling.heet._search import search

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


@given(seeds, st.booleans(), st.floats(0, 0.3))
@settings(max_examples=300, deadline=None)
def test_the_search_finds_a_best_choice_at_any_prices(seed: int, ties: bool, price: float) -> None:
    rng = np.random.default_rng(seed)
    problem = instance(rng, 4, ties=ties)
    found = search(problem, rng.uniform(0, price, len(problem.capacity)))
    options = [[-1, *np.flatnonzero(problem.owner == job)] for job in range(problem.jobs)]
    best = 0.0
    for rows in itertools.product(*options):
        taken = [row for row in rows if row >= 0]
        if (problem.counts[taken].sum(axis=0) <= problem.capacity).all():
            best = max(best, float(problem.utility[taken].sum()))
    if found is None:  # nothing is best, or the prices were too far off for the widest limit
        return
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
