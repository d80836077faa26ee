"""Shockwave's market against another solver, and what its two halves do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, minimize

from staves.hardware import Cluster, DeviceType, Node
from staves.scheduling import JobView, Policy, Shockwave, Srtf
from staves.scheduling._ladders import Array
from staves.scheduling._shockwave import Market
from staves.simulation import simulate
from tests.scheduling.curves import job, view

seeds = st.integers(0, 2**32 - 1)
WINDOW = 2400.0


def random_market(seed: int) -> Market:
    """Jobs that have done a part of their work, on one or two types."""
    rng = np.random.default_rng(seed)
    jobs, types = int(rng.integers(1, 6)), int(rng.integers(1, 3))
    rates = rng.uniform(0.5, 4.0, (jobs, types))
    total = rng.uniform(0.5, 4.0, jobs) * WINDOW * 2
    done = total * rng.uniform(0.05, 0.9, jobs)
    need = rng.integers(1, 4, jobs).astype(np.float64)
    budget = rng.uniform(0.5, 2.0, jobs) ** 5
    capacity = rng.integers(1, 6, types).astype(np.float64)
    return Market(rates, need, capacity, total - done, done, budget)


def welfare(market: Market, plan: Array, regulariser: float) -> float:
    """What a plan is worth, with the logarithm itself; nobody does more than all of its work."""
    bought = np.minimum((market.rates * plan).sum(axis=1) * WINDOW, market.work)
    share = (market.done + bought) / (market.done + market.work)
    best = market.rates.max(axis=1)
    rest = (market.work - (market.rates * plan).sum(axis=1) * WINDOW) / best
    longest = max(0.0, float(rest.max())) / float((market.work / best).max())
    weight = market.budget / market.budget.sum()
    return float(weight @ np.log(share)) - regulariser * longest


@given(seeds, st.sampled_from([0.0, 1.0]))
@settings(max_examples=50, deadline=None)
def test_no_other_plan_has_a_larger_welfare(seed: int, regulariser: float) -> None:
    """A general solver of the concave problem itself finds nothing better, but for the pieces."""
    market = random_market(seed)
    jobs, types = market.rates.shape
    plan = market.plan(WINDOW, regulariser)
    assert (plan >= 0).all()
    assert (plan.sum(axis=1) <= 1 + 1e-5).all()
    assert (market.need @ plan <= market.capacity + 1e-4).all()
    each = np.kron(np.eye(jobs), np.ones(types))
    together = np.kron(market.need, np.eye(types))

    def loss(x: Array) -> float:
        return -welfare(market, x.reshape(jobs, types), regulariser)

    found = minimize(
        loss,
        np.full(jobs * types, 0.01),
        method="SLSQP",
        bounds=Bounds(0.0, 1.0),
        constraints=[
            LinearConstraint(each, -np.inf, 1.0),
            LinearConstraint(together, -np.inf, market.capacity),
        ],
    )
    other = found.x.reshape(jobs, types).clip(0, 1)
    assert welfare(market, plan, regulariser) >= welfare(market, other, regulariser) - 0.03


def test_equal_buyers_have_equal_parts_and_rich_ones_more() -> None:
    ones = np.ones(2)
    market = Market(np.ones((2, 1)), ones, np.ones(1), 1e5 * ones, 1e4 * ones, ones)
    assert market.plan(WINDOW, 0.0).sum() == pytest.approx(1.0, abs=1e-5)
    rich = replace(market, budget=np.array([1.0, 32.0]))
    assert rich.plan(WINDOW, 0.0)[1, 0] > 0.99


def test_the_longest_rest_counts() -> None:
    """Of two jobs one is done long before the other: the latter has the device if that counts."""
    market = Market(
        np.ones((2, 1)),
        np.ones(2),
        np.ones(1),
        work=np.array([2e3, 1e5]),
        done=np.array([2e2, 1e5]),
        budget=np.ones(2),
    )
    assert market.plan(WINDOW, 0.0)[0, 0] > 0.8
    assert market.plan(WINDOW, 1000.0)[1, 0] == pytest.approx(1.0, abs=1e-5)


def test_who_is_treated_unfairly_comes_first() -> None:
    waited = job("waited", (1.0,), remaining=3000.0)
    new = replace(job("new", (1.0,), remaining=3000.0), submitted=9000.0)
    decision = Shockwave().decide(view((1,), new, waited, now=9000.0))
    assert decision.chosen == {"waited": (1,)}
    assert "rho" in decision.reasons["waited"].text


def test_long_jobs_are_not_left_to_the_end() -> None:
    """Short jobs keep coming; the shortest first would do the long one when all others are done."""
    jobs = [replace(job("long", (1.0,), remaining=20_000.0), submitted=0.0)]
    for i in range(40):
        short = job(f"{i}", (1.0,), remaining=1_000.0)
        jobs.append(replace(short, submitted=500.0 * i))
    cluster = Cluster({"a": DeviceType("a")}, (Node("n", {"a": 2}),))

    def makespan(policy: Policy, jobs: list[JobView]) -> float:
        done = simulate(policy, cluster, jobs)
        assert all(one.finished is not None for one in done.jobs)
        return float(done.makespan_seconds or 0.0)

    assert makespan(Shockwave(regulariser=1.0), jobs) < 0.9 * makespan(Srtf(), jobs)


def test_jobs_alike_do_not_change_places_for_ever() -> None:
    """A pause as long as a round: whoever changes places in every round is never done."""
    jobs = [
        replace(
            job(name, (1.0,), (0.6,), remaining=30_000.0), start_pause=120.0, resize_pause=120.0
        )
        for name in ("one", "other")
    ]
    types = {"a": DeviceType("a"), "b": DeviceType("b")}
    cluster = Cluster(types, (Node("m", {"a": 1}), Node("n", {"b": 1})))
    done = simulate(Shockwave(), cluster, jobs, until=120_000.0)
    assert all(one.finished is not None for one in done.jobs)
    assert sum(one.restarts for one in done.jobs) < 40


def test_of_equal_plans_who_has_devices_stays() -> None:
    """Both will be done in the window, on whatever type."""
    market = Market(
        np.ones((2, 2)),
        np.ones(2),
        np.ones(2),
        work=np.full(2, 600.0),
        done=np.full(2, 600.0),
        budget=np.ones(2),
        held=np.array([[0, 1], [1, 0]]),
    )
    plan = market.plan(WINDOW, 0.0)
    assert plan == pytest.approx(np.array([[0, 1], [1, 0]]), abs=1e-6)
