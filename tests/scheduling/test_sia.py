from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.scheduling import Counts, JobView, Sia, View
from staves.testing import Scaling

NODES = ((4, 0), (4, 0), (0, 8))
CONFIGURATIONS: list[Counts] = [
    *((n, 0) for n in (1, 2, 4, 8)),
    *((0, n) for n in (1, 2, 4, 8)),
]
COSTS = {"bert": 120.0, "cifar10": 30.0, "other": 30.0}


def view(jobs: list[JobView], now: float = 1000.0) -> View:
    return View(now, ("t4", "a100"), (8, 8), NODES, tuple(jobs))


def job(name: str, **more: object) -> JobView:
    rates = Scaling((1.0, 4.0), loss=0.2)
    return JobView(name, 0.0, rates, 1e4, maximum=64, mix=False, **more)  # type: ignore[arg-type]


def value(one: JobView, counts: Counts, now: float) -> float:
    """Return what a configuration counts, by the paper's formulas and plain arithmetic."""
    allowed = [c for c in CONFIGURATIONS if one.scale_limit is None or sum(c) <= one.scale_limit]
    if one.current is not None and one.current not in allowed:
        allowed.append(one.current)
    if counts not in allowed:
        return np.inf
    rates = one.rates(np.array(allowed))
    goodput = float(one.rates(np.array([counts]))[0]) / float(rates.min())
    age, cost = now - one.submitted, COSTS[one.application or "other"]
    if one.current is not None and one.current != counts and age >= cost:
        goodput *= max(age - one.restarts * cost, 0.0) / (age + cost)
    return round(goodput**-0.5, 2) if goodput > 0 else np.inf


def best(jobs: list[JobView], now: float) -> float:
    """Return the smallest sum over all ways to give these jobs configurations or none."""
    options: list[tuple[Counts, ...]] = [((0, 0), *CONFIGURATIONS)] * len(jobs)
    sums = [
        sum(
            1.1 if counts == (0, 0) else value(one, counts, now)
            for one, counts in zip(jobs, way, strict=True)
        )
        for way in itertools.product(*options)
        if all(sum(column) <= 8 for column in zip(*way, strict=True))
    ]
    return min(sums)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_no_choice_has_a_smaller_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = [
        JobView(
            f"job-{i}",
            float(rng.uniform(0, 1000)),
            Scaling(tuple((10 ** rng.uniform(0, 1, 2)).tolist()), float(rng.choice([0.05, 0.3]))),
            1e4,
            maximum=64,
            mix=False,
            application=str(rng.choice(["bert", "cifar10", ""])),
            restarts=int(rng.integers(0, 4)),
            scale_limit=int(rng.choice([1, 2, 4, 64])),
        )
        for i in range(3)
    ]
    if rng.random() < 0.7:
        jobs[0] = replace(jobs[0], current=CONFIGURATIONS[int(rng.integers(8))])
    decision = Sia().decide(view(jobs))
    got = sum(
        value(one, decision.chosen[one.id], 1000.0) if one.id in decision.chosen else 1.1
        for one in jobs
    )
    assert got == pytest.approx(best(jobs, 1000.0), abs=1e-3)
    assert decision.value == pytest.approx(3 * 1.1 - got)


def test_a_job_alone_has_all_that_its_scale_limit_allows() -> None:
    for limit, devices in ((1, 1), (2, 2), (5, 4), (None, 8)):
        chosen = Sia().decide(view([job("x", scale_limit=limit)])).chosen
        assert chosen == {"x": (0, devices)}


def test_whole_nodes_or_powers_of_two_in_one() -> None:
    slow_only = replace(job("x", scale_limit=7), types=frozenset({0}))
    assert Sia().decide(view([slow_only])).chosen == {"x": (4, 0)}
    three = replace(slow_only, minimum=3, maximum=3)
    assert Sia().decide(view([three])).chosen == {"x": (3, 0)}  # what it must have


def test_a_job_in_its_pause_stays() -> None:
    waiting = job("x", current=(1, 0), pause_left=10.0)
    assert Sia().decide(view([waiting])).chosen == {"x": (1, 0)}
    assert Sia().decide(view([replace(waiting, pause_left=0.0)])).chosen == {"x": (0, 8)}


def test_a_job_that_has_been_moved_often_is_left_alone() -> None:
    moved = job("x", current=(0, 4), restarts=9, application="bert")  # 9 x 120 s in 1,000 s
    assert Sia().decide(view([moved])).chosen == {"x": (0, 4)}
    young = View(100.0, ("t4", "a100"), (8, 8), NODES, (moved,))
    assert Sia().decide(young).chosen == {"x": (0, 8)}  # younger than a restart takes


def test_jobs_that_do_not_scale_have_one_device_each_while_there_are_some() -> None:
    jobs = [replace(job(f"job-{i}"), rates=Scaling((1.0, 4.0), loss=1.5)) for i in range(20)]
    decision = Sia().decide(view(jobs))
    assert len(decision.chosen) == 16
    assert all(sum(counts) == 1 for counts in decision.chosen.values())
    waits = next(one for one in jobs if one.id not in decision.chosen)
    assert "Other jobs" in decision.reasons[waits.id].text
    assert decision.reasons[waits.id].alternatives
