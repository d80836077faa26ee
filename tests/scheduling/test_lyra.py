from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.scheduling import Lyra
from tests.scheduling.curves import concave, job, view

DEVICES = 8


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_the_knapsack_saves_most_time(seed: int) -> None:
    """Of all splits beyond the bases; scaling need not be concave."""
    rng = np.random.default_rng(seed)
    jobs = []
    for i in range(3):
        scaled = np.array(concave(rng, DEVICES)) * rng.uniform(0.6, 1.0, DEVICES)
        rates = tuple(scaled.tolist())
        minimum = int(rng.integers(1, 3))
        work = float(rng.uniform(1, 100))
        current = (int(rng.integers(minimum, 4)),) if rng.random() < 0.3 and i == 0 else None
        jobs.append(
            job(f"{i}", rates, remaining=work, minimum=minimum, current=current, resize_pause=5.0)
        )

    def seconds(split: tuple[int, ...]) -> float:
        return sum(
            one.remaining / float(one.rates(np.array([[n]]))[0])
            + (5.0 if one.current not in (None, (n,)) else 0.0)
            for one, n in zip(jobs, split, strict=True)
        )

    splits = itertools.product(*(range(one.minimum, DEVICES + 1) for one in jobs))
    best = min(seconds(split) for split in splits if sum(split) <= DEVICES)
    chosen = Lyra().decide(view((DEVICES,), *jobs)).chosen
    assert seconds(tuple(chosen[one.id][0] for one in jobs)) == pytest.approx(best, rel=1e-3)


def test_bases_come_first_the_shortest_first() -> None:
    long = job("long", (1.0, 2.0, 3.0), remaining=1e6)
    shorts = [job(f"{work}", (1.0, 2.0, 3.0), remaining=float(work)) for work in (30, 20, 10)]
    assert Lyra().decide(view((3,), long, *shorts)).chosen == {"30": (1,), "20": (1,), "10": (1,)}


def test_who_runs_keeps_the_base_and_no_more() -> None:
    runs = job("long", (1.0, 2.0, 3.0), remaining=1e6, current=(3,))
    short = job("short", (1.0, 2.0, 3.0), remaining=1.0, minimum=2)
    assert Lyra().decide(view((3,), runs, short)).chosen == {"long": (1,), "short": (2,)}
    only = job("short", (1.0, 2.0, 3.0), remaining=1.0, minimum=3)
    assert Lyra().decide(view((3,), runs, only)).chosen == {"long": (3,)}
