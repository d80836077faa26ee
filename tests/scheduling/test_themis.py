from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.scheduling import JobView, Themis
from staves.scheduling._ladders import ladders
from staves.scheduling._themis import Bids
from tests.scheduling.curves import concave, job, view

DEVICES = 5


def product(bids: Bids, jobs: list[int], devices: int) -> float:
    """Return the largest product of valuations, of all splits."""
    return max(
        math.prod(
            1 / (bids.rho[j, 0, n] if n else bids.nothing) for j, n in zip(jobs, split, strict=True)
        )
        for split in itertools.product(range(devices + 1), repeat=len(jobs))
        if sum(split) <= devices
    )


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_the_auction_is_the_partial_allocation_mechanism(seed: int) -> None:
    """The product is the largest, and each keeps the part that it leaves to the others."""
    rng = np.random.default_rng(seed)
    jobs = [
        replace(
            job(f"job-{i}", concave(rng, DEVICES), remaining=float(rng.uniform(10, 1000))),
            submitted=float(rng.uniform(0, 1000)),
        )
        for i in range(3)
    ]
    bids = Bids.of(view((DEVICES,), *jobs), ladders(jobs, [DEVICES]))
    everybody = [0, 1, 2]
    won = bids.won(everybody, [DEVICES])

    def valuation(j: int) -> float:
        return 1 / (bids.rho[j][won[j]] if j in won else bids.nothing)

    best = product(bids, everybody, DEVICES)
    assert math.prod(map(valuation, everybody)) == pytest.approx(best, rel=1e-3)
    kept = bids.auction(everybody, [DEVICES])
    for j, (_, size) in won.items():
        others = [i for i in everybody if i != j]
        part = math.prod(map(valuation, others)) / product(bids, others, DEVICES)
        assert 0 < part <= 1 + 1e-3
        exact = part * size
        if abs(exact - round(exact)) > 0.01:
            assert kept.get(j, (0, 0))[1] == math.floor(exact)


def waiting(name: str, submitted: float) -> JobView:
    return replace(job(name, (1.0,), remaining=100.0), submitted=submitted)


def test_the_least_fairly_treated_go_first() -> None:
    jobs = waiting("early", 0.0), waiting("late", 900.0)
    decision = Themis().decide(view((1,), *jobs))
    assert decision.chosen == {"early": (1,)}
    assert "less fairly" in decision.reasons["late"].text


def test_a_lease_is_kept_to_its_end() -> None:
    has = replace(waiting("late", 900.0), current=(1,), unchanged=600.0)
    jobs = waiting("early", 0.0), has
    assert Themis().decide(view((1,), *jobs)).chosen == {"late": (1,)}
    over = replace(has, unchanged=1200.0)
    assert Themis().decide(view((1,), jobs[0], over)).chosen == {"early": (1,)}
    renewed = replace(has, unchanged=1500.0)
    assert Themis().decide(view((1,), jobs[0], renewed)).chosen == {"late": (1,)}


def test_nothing_idles_that_somebody_would_gain_by() -> None:
    jobs = [job(f"{i}", (1.0, 1.5, 1.8), remaining=100.0) for i in range(3)]
    chosen = Themis().decide(view((9,), *jobs)).chosen
    assert chosen == {"0": (3,), "1": (3,), "2": (3,)}
