from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.hardware import Cluster, DeviceType, Node
from staves.scheduling import ElasticFlow
from staves.scheduling._elasticflow import Plan, in_powers
from staves.scheduling._ladders import ladders
from staves.simulation import simulate
from tests.scheduling.curves import concave, job, view

seeds = st.integers(0, 2**32 - 1)
DEVICES = 8


@given(seeds)
@settings(max_examples=100)
def test_a_share_is_the_smallest_that_meets_the_deadline(seed: int) -> None:
    """On an empty cluster: the fewest devices with which the work is done in whole minutes."""
    rng = np.random.default_rng(seed)
    rates = concave(rng, DEVICES)
    work, slots = float(rng.uniform(100, 3000)), int(rng.integers(1, 20))
    one = job("x", rates, remaining=work, deadline=1000.0 + 60 * slots)
    plan = Plan(1000.0, ladders([one], [DEVICES]), [DEVICES], 60.0)
    enough = [n for n, rate in enumerate(rates, 1) if rate * 60 * slots >= work]
    found = plan.admitted()
    assert (0 in found) == bool(enough)
    if enough:
        assert int(found[0][1].max()) == enough[0]


def test_who_is_admitted_meets_the_deadline() -> None:
    """Played through, with others that come later and would be in the way.

    Hardly anyone is late. It can happen: shares are found anew at every decision, and one that has
    got more than its share may then do with a smaller one for longer, where another counted on it.
    """
    admitted, late = 0, 0
    for seed in range(250):
        rng = np.random.default_rng(seed)
        jobs = []
        for i in range(6):
            came = float(rng.choice([0.0, 0.0, 60.0, 300.0]))
            deadline = came + 60 * float(rng.integers(3, 40)) if rng.random() < 0.8 else np.inf
            work = float(rng.uniform(50, 1500))
            one = job(f"{i}", concave(rng, DEVICES), remaining=work, deadline=deadline)
            jobs.append(replace(one, submitted=came))
        first = [one for one in jobs if one.submitted == 0 and np.isfinite(one.deadline)]
        # In the sizes that the policy gives: others may meet a deadline that these do not.
        sizes = in_powers(ladders(first, [DEVICES]))
        plan = Plan(0.0, sizes, [DEVICES], 60.0).admitted()
        if len(first) < 2 or len(plan) < len(first):
            continue
        cluster = Cluster({"a": DeviceType("a")}, (Node("n", {"a": DEVICES}),))
        ends = {one.id: one.finished for one in simulate(ElasticFlow(), cluster, jobs).jobs}
        for one in first:
            finished = ends[one.id]
            assert finished is not None
            admitted += 1
            late += finished > one.deadline + 1e-6
    assert admitted > 400
    assert late <= 0.01 * admitted


def test_deadlines_come_before_who_came_earlier() -> None:
    early = job("early", (1.0, 2.0), remaining=1e4)
    urgent = job("urgent", (1.0, 2.0), remaining=120.0, deadline=1060.0)
    decision = ElasticFlow().decide(view((2,), early, urgent))
    assert decision.chosen == {"urgent": (2,)}
    assert "deadlines" in decision.reasons["early"].text
    late = replace(urgent, deadline=1059.0)  # no share is enough
    assert ElasticFlow().decide(view((2,), early, late)).chosen == {"early": (1,), "urgent": (1,)}


def test_who_is_admitted_later_breaks_nobody() -> None:
    first = job("first", (1.0, 2.0), remaining=240.0, deadline=1120.0)
    second = job("second", (1.0, 2.0), remaining=60.0, deadline=1060.0)
    plan = Plan(1000.0, ladders([first, second], [2]), [2], 60.0)
    assert set(plan.admitted()) == {0}
    plan = Plan(1000.0, ladders([second, first], [2]), [2], 60.0)
    assert set(plan.admitted()) == {0}


def test_what_is_left_goes_where_a_device_adds_most_to_one_of_the_share() -> None:
    scales, scales_not = (1.0, 2.0, 3.0, 4.0), (10.0, 11.0, 12.0, 13.0)
    jobs = job("x", scales, remaining=1e4), job("y", scales_not, remaining=1e4)
    assert ElasticFlow().decide(view((5,), *jobs)).chosen == {"x": (4,), "y": (1,)}
