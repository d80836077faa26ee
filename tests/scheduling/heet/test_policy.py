from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from staves.hardware import Cluster, DeviceType, Node
from staves.scheduling import Counts, Heet, JobView, View, violation
from staves.scheduling._configurations import every, keeps_guaranteed, unpinned
from staves.scheduling.heet._configurations import MOST
from staves.scheduling.heet._utility import Weights, weigh
from staves.simulation import simulate
from staves.testing import Scaling, random_view

seeds = st.integers(0, 2**32 - 1)


def one_type(devices: int, *jobs: JobView) -> View:
    return View(0.0, ("a",), (devices,), ((devices,),), jobs)


@given(seeds)
@settings(max_examples=100)
def test_the_decision_is_the_best_of_all_combinations(seed: int) -> None:
    view = random_view(seed)
    jobs = tuple(job for job in view.jobs[:3] if not job.pinned)
    view = View(view.now, view.types, view.capacity, view.nodes, jobs)
    tables = []
    for job in jobs:
        table = every(job, unpinned(view), 10_000)
        assert table is not None
        assume(len(table) <= MOST)
        tables.append(table[keeps_guaranteed(job, unpinned(view), table)])
    weighed = weigh(view, tables, Weights())
    best = {(0,) * len(view.types): 0.0}  # used -> greatest sum
    for item in weighed:
        following: dict[Counts, float] = {}
        must = item.job.current is not None and item.job.guaranteed > 0
        rows = [((0,) * len(view.types), 0.0)] if not must or not len(item.utility) else []
        rows += zip(map(tuple, item.table.tolist()), item.utility.tolist(), strict=True)
        for (used, value), (counts, utility) in itertools.product(best.items(), rows):
            total = tuple(map(int.__add__, used, counts))
            if all(n <= top for n, top in zip(total, view.capacity, strict=True)):
                following[total] = max(following.get(total, 0.0), value + utility)
        best = following
    decision = Heet().decide(view)
    assert decision.value == pytest.approx(max(best.values()), rel=1e-7, abs=1e-12)


@given(seeds)
@settings(max_examples=50)
def test_prices_and_trades_are_no_better_and_within_their_bound(seed: int) -> None:
    view = random_view(seed)
    # Of jobs that must have something and cannot all have it, the two may leave out others.
    jobs = tuple(replace(job, guaranteed=0) for job in view.jobs)
    view = replace(view, jobs=jobs)
    exact, traded = Heet().decide(view), Heet(exact=False).decide(view)
    assert exact.value is not None
    assert traded.value is not None
    assert traded.bound is not None
    assert violation(view, traded) is None
    assert traded.value <= exact.value * (1 + 1e-7) <= traded.bound * (1 + 2e-7)


@given(seeds)
@settings(max_examples=50)
def test_a_lone_job_gets_its_fastest_configuration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speeds = tuple(10 ** rng.uniform(0, 1, 2))
    job = JobView("j", 0.0, Scaling(speeds, float(rng.choice([0.05, 0.5, 2.0]))), 1e4, maximum=6)
    view = View(0.0, ("a", "b"), (4, 3), ((4, 3),), (job,))
    table = every(job, view.capacity, 10_000)
    assert table is not None
    reason = Heet().decide(view).reasons["j"]
    assert reason.chosen is not None
    assert reason.chosen.rate == pytest.approx(job.rates(table).max())
    assert "Nothing that it may use would be faster" in reason.text


def test_a_long_queue_is_served_shortest_first() -> None:
    work = [700.0, 100.0, 900.0, 300.0, 500.0]
    jobs = [JobView(f"{w:.0f}", 0.0, Scaling((1.0,)), w) for w in work]
    cluster = Cluster({"a": DeviceType("a")}, (Node("n", {"a": 1}),))
    ends = {job.id: job.finished for job in simulate(Heet(), cluster, jobs).jobs}
    assert sorted(ends, key=lambda id: ends[id] or math.inf) == ["100", "300", "500", "700", "900"]


def test_a_running_job_is_not_moved_for_next_to_nothing() -> None:
    rates = Scaling((1.0, 1.01))
    job = JobView("j", 0.0, rates, 1e4, current=(1, 0))
    view = View(0.0, ("a", "b"), (1, 1), ((1, 1),), (job,))
    decision = Heet().decide(view)
    assert decision.chosen == {"j": (1, 0)}
    better = JobView("j", 0.0, Scaling((1.0, 1.5)), 1e4, current=(1, 0))
    assert Heet().decide(View(0.0, ("a", "b"), (1, 1), ((1, 1),), (better,))).chosen == {
        "j": (0, 1)
    }


def end_among_short_ones(wait_target: float) -> float:
    """Return when a long job ends that competes with a stream of short ones for one device."""
    rates = Scaling((1.0,))
    long = JobView("long", 0.0, rates, 1000.0, start_pause=5.0)
    short = [JobView(f"short-{i}", 100.0 * i, rates, 120.0, start_pause=5.0) for i in range(60)]
    cluster = Cluster({"a": DeviceType("a")}, (Node("n", {"a": 1}),))
    policy = Heet(Weights(wait_target=wait_target))
    result = simulate(policy, cluster, [long, *short]).jobs[0]
    assert result.finished is not None
    return result.finished


def test_nobody_starves_under_a_stream_of_short_jobs() -> None:
    """The short ones alone take more than the device has, for 60 x 100 s."""
    assert end_among_short_ones(math.inf) > 7500
    assert end_among_short_ones(600.0) < 4500


def test_reasons_name_the_faster_and_who_has_it() -> None:
    fast = Scaling((1.0, 4.0))
    slow = Scaling((1.0, 1.2))
    view = View(
        0.0,
        ("t4", "v100"),
        (1, 1),
        ((1, 1),),
        (JobView("mnist", 0.0, fast, 1e4), JobView("bert", 0.0, slow, 1e4)),
    )
    decision = Heet().decide(view)
    assert decision.chosen == {"mnist": (0, 1), "bert": (1, 0)}
    text = decision.reasons["bert"].text
    assert text.startswith("1 t4: 1 samples a second, 2.8 h to its end.")
    assert "1 v100 would be 1.2 x as fast, but mnist gains more from the v100." in text


def test_those_that_wait_know_who_is_ahead() -> None:
    rates = Scaling((1.0,))
    jobs = [JobView(f"j{i}", 0.0, rates, 1000.0 * (i + 1)) for i in range(6)]
    decision = Heet().decide(one_type(1, *jobs))
    assert decision.chosen == {"j0": (1,)}
    assert "it is the next to start" in decision.reasons["j1"].text
    assert "ahead of it wait j1, j2, j3 and 1 more." in decision.reasons["j5"].text
    assert "It waits: j0 gains more from the a;" in decision.reasons["j5"].text
    assert len(decision.reasons["j5"].alternatives) == 1
