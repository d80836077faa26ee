"""Prices and trades, against a general solver, brute force and what each move may do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.scheduling.heet._choose import Solution
from staves.scheduling.heet._market import decide, market
from staves.scheduling.heet._prices import Prices, prices
from staves.scheduling.heet._relaxation import Instance
from staves.scheduling.heet._trades import Trading
from tests.scheduling.heet.instances import many, solved

seeds = st.integers(0, 2**32 - 1)
NONE = np.zeros(0, dtype=np.int64)


def nobody(problem: Instance) -> np.ndarray:
    return np.zeros(problem.jobs, dtype=bool)


def check(problem: Instance, found: Solution) -> None:
    """It is a choice: one column a job, no more devices than there are, worth what is said."""
    assert np.bincount(problem.owner[found.columns], minlength=problem.jobs).max(initial=0) <= 1
    assert (problem.counts[found.columns].sum(axis=0) <= problem.capacity).all()
    assert found.value == pytest.approx(problem.utility[found.columns].sum())
    assert found.value <= found.bound
    assert found.prices is not None
    assert (found.prices >= 0).all()


@given(seeds, st.integers(1, 40), st.integers(1, 6), st.booleans())
@settings(max_examples=80, deadline=None)
def test_it_is_a_choice_and_the_bound_is_no_less_than_that_of_the_relaxation(
    seed: int, jobs: int, types: int, alike: bool
) -> None:
    problem = many(seed, jobs, types=types, alike=alike)
    found = market(problem, nobody(problem), NONE)
    check(problem, found)
    assert found.bound >= solved(problem, whole=False) * (1 - 1e-7)


@pytest.mark.parametrize("alike", [False, True])
def test_on_160_jobs_it_is_near_the_best(alike: bool) -> None:
    gaps = []
    for seed in range(20):
        problem = many(seed, 160, types=3, alike=alike)
        found = market(problem, nobody(problem), NONE)
        check(problem, found)
        gaps.append(1 - found.value / solved(problem))
    assert np.median(gaps) <= 0.005
    assert max(gaps) <= 0.03


def test_of_thousands_of_jobs_little_is_missing() -> None:
    problem = many(3, 3000, types=6)
    found = decide(problem, nobody(problem), NONE)
    check(problem, found)
    assert 1 - found.value / found.bound <= 0.002


def tight(seed: int) -> tuple[Instance, np.ndarray, np.ndarray]:
    """Return jobs, those that must have something, and what these have: all devices there are."""
    rng = np.random.default_rng(seed)
    jobs, types = int(rng.integers(2, 41)), int(rng.integers(1, 7))
    problem = many(seed, jobs, types=types)
    must = np.random.default_rng(seed).random(jobs) < (0.4 if seed % 2 else 0.9)
    begin, size = problem.runs
    held = (begin + rng.integers(0, size))[must]
    capacity = problem.counts[held].sum(axis=0)
    fits = np.flatnonzero((problem.counts <= capacity).all(axis=1))
    left = Instance(
        problem.utility[fits], problem.counts[fits], problem.owner[fits], jobs, capacity
    )
    return left, must, np.flatnonzero(np.isin(fits, held))


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_jobs_that_must_have_something_do(seed: int) -> None:
    problem, must, held = tight(seed)
    found = market(problem, must, held)
    check(problem, found)
    have = np.bincount(problem.owner[found.columns], minlength=problem.jobs) > 0
    assert have[must].all()
    assert found.bound >= solved(problem, must, whole=False) * (1 - 1e-7)


@pytest.mark.parametrize("seed", [313, 467, 767])
def test_where_trades_do_not_lead_there_they_start_from_what_jobs_have(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, must, held = tight(seed)
    starts = []

    def noted(problem: Instance, priced: Prices) -> Trading:
        starts.append(priced.start)
        return Trading(problem, priced)

    monkeypatch.setattr("staves.scheduling.heet._market.Trading", noted)
    found = market(problem, must, held)
    assert starts[-1] is held
    assert (np.bincount(problem.owner[found.columns], minlength=problem.jobs) > 0)[must].all()


def trading(problem: Instance, priced: Prices | None = None) -> Trading:
    return Trading(problem, priced or prices(problem, 1e-4))


@given(seeds, st.integers(1, 40), st.integers(1, 6), st.floats(0, 3))
@settings(max_examples=80, deadline=None)
def test_after_what_does_not_fit_is_shed_every_move_gains(
    seed: int, jobs: int, types: int, off: float
) -> None:
    """At any prices, too far from the best ones as well."""
    problem = many(seed, jobs, types=types)
    right = prices(problem, 1e-4)
    drawn = np.random.default_rng(seed).uniform(0, off, types)
    # A bound that nothing reaches: so every trade that gains is made.
    market = trading(problem, Prices(right.of_types * drawn, right.bound * 2, right.start))
    market._shed()
    before = market.value
    for _ in range(20):
        for move in (market._fill, market._trade):
            move()
            used = problem.counts[market.columns].sum(axis=0)
            assert (used <= problem.capacity).all()
            assert market._free == pytest.approx(problem.capacity - used)
            assert market.value >= before
            before = market.value


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_in_the_end_no_job_alone_and_no_two_jobs_can_gain(seed: int) -> None:
    problem = many(seed, 6, types=2)
    done = trading(problem)
    done.run(0.0)
    has = {int(problem.owner[column]): int(column) for column in done.columns}
    moves = [
        (job, problem.utility[column], problem.counts[column])
        for column, job in enumerate(problem.owner.tolist())
    ]
    moves += [(job, 0.0, np.zeros(2, dtype=np.int64)) for job in range(6)]
    free = problem.capacity - problem.used(done.columns)
    gains = []
    for job, utility, counts in moves:
        now = has.get(job)
        had, worth = (0, 0.0) if now is None else (problem.counts[now], problem.utility[now])
        gains.append((job, utility - worth, counts - had))
    for job, gain, need in gains:
        assert gain <= 1e-9 or (need > free).any(), job
    for (one, gain, need), (other, loss, given_) in itertools.combinations(gains, 2):
        if one != other and gain + loss > 1e-9:
            assert (need + given_ > free).any()
