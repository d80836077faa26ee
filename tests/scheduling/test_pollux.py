from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.scheduling import Counts, JobView, Pollux, PolluxGenetic
from staves.scheduling._ladders import ladders
from staves.scheduling._pollux import Slowness
from tests.scheduling.curves import Curves, concave, job, view

seeds = st.integers(0, 2**32 - 1)
CAPACITY = (4, 3)
CHOICES = [(0, 0), *((0, n) for n in (1, 2, 3, 4)), *((1, n) for n in (1, 2, 3))]


def some(rng: np.random.Generator, jobs: int) -> list[JobView]:
    made = [
        job(
            f"job-{i}",
            concave(rng, 4),
            concave(rng, 3),
            remaining=100.0,
            restarts=int(rng.integers(5)),
        )
        for i in range(jobs)
    ]
    if rng.random() < 0.7:
        made[0] = replace(made[0], current=(2, 0))
    return made


def sums(weighed: Slowness, chosen: dict[int, tuple[int, int]]) -> float:
    """Return the sum of 1 / speedup."""
    return sum(
        weighed.cost[j][chosen[j]] if chosen.get(j, (0, 0))[1] else weighed.nothing
        for j in range(len(weighed.cost))
    )


def best(weighed: Slowness) -> float:
    """Return the smallest sum of all ways to share the devices."""
    ways = itertools.product(CHOICES, repeat=len(weighed.cost))
    return min(
        sums(weighed, dict(enumerate(way)))
        for way in ways
        if all(sum(n for h, n in way if h == g) <= CAPACITY[g] for g in range(2))
    )


def by_number(jobs: list[JobView], chosen: Mapping[str, Counts]) -> dict[int, tuple[int, int]]:
    return {
        j: (int(np.argmax(chosen[one.id])), sum(chosen[one.id]))
        for j, one in enumerate(jobs)
        if one.id in chosen
    }


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_no_allocation_is_fitter(seed: int) -> None:
    jobs = some(np.random.default_rng(seed), 3)
    seen = view(CAPACITY, *jobs)
    weighed = Slowness.of(seen, ladders(jobs, CAPACITY))
    exact = sums(weighed, by_number(jobs, Pollux().decide(seen).chosen))
    assert exact == pytest.approx(best(weighed), rel=1e-3)
    found = sums(weighed, by_number(jobs, PolluxGenetic(30, 15).decide(seen).chosen))
    assert exact <= found * (1 + 1e-3)
    assert found <= sums(weighed, {0: (0, 2)} if jobs[0].current else {})  # where it starts from


def test_the_published_search_finds_the_best_of_few() -> None:
    for seed in range(5):
        jobs = some(np.random.default_rng(seed), 2)
        seen = view(CAPACITY, *jobs)
        weighed = Slowness.of(seen, ladders(jobs, CAPACITY))
        chosen = PolluxGenetic().decide(seen).chosen
        assert sums(weighed, by_number(jobs, chosen)) == pytest.approx(best(weighed), rel=1e-9)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_speedups_know_no_unit(seed: int) -> None:
    """A job that counts its work in other units gets the same."""
    rng = np.random.default_rng(seed)
    jobs = some(rng, 3)
    before = Pollux().decide(view(CAPACITY, *jobs))
    assert isinstance(jobs[1].rates, Curves)
    scaled = Curves(tuple(tuple(8 * rate for rate in rates) for rates in jobs[1].rates.rates))
    jobs[1] = replace(jobs[1], rates=scaled)
    assert Pollux().decide(view(CAPACITY, *jobs)).chosen == before.chosen


def test_a_job_has_at_most_twice_what_it_ever_had() -> None:
    scales = (1.0, 2.0, 3.0, 4.0)
    for limit, devices in ((1, 1), (2, 2), (3, 3), (None, 4)):
        one = job("x", scales, remaining=10.0, scale_limit=limit)
        assert Pollux().decide(view((4,), one)).chosen == {"x": (devices,)}
        assert PolluxGenetic().decide(view((4,), one)).chosen == {"x": (devices,)}


def test_who_has_been_moved_often_is_left_alone() -> None:
    one = job("x", (1.0, 1.9), remaining=10.0, current=(1,), restarts=30)  # 30 x 30 s of 1,000 s
    assert Pollux().decide(view((2,), one)).chosen == {"x": (1,)}
    assert Pollux().decide(view((2,), replace(one, restarts=1))).chosen == {"x": (2,)}


def test_a_node_is_not_given_out_twice() -> None:
    jobs = some(np.random.default_rng(1), 6)
    decision = PolluxGenetic(20, 10).decide(view(CAPACITY, *jobs))
    used = np.sum(list(decision.chosen.values()), axis=0)
    assert (used <= np.array(CAPACITY)).all()
    assert used.sum() > 0
