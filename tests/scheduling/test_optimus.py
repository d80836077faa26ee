from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.scheduling import Optimus
from tests.scheduling.curves import concave, job, view

DEVICES = 7


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_no_other_split_leaves_less_time_to_all(seed: int) -> None:
    """Where scaling is concave, the greedy search is exact: all splits are tried."""
    rng = np.random.default_rng(seed)
    jobs = [
        job(f"job-{i}", concave(rng, DEVICES), remaining=float(rng.uniform(1, 100)))
        for i in range(3)
    ]

    def seconds(split: tuple[int, ...]) -> float:
        return sum(
            one.remaining / float(one.rates(np.array([[n]]))[0])
            for one, n in zip(jobs, split, strict=True)
        )

    splits = itertools.product(range(1, DEVICES), repeat=3)
    best = min(seconds(split) for split in splits if sum(split) <= DEVICES)
    chosen = Optimus().decide(view((DEVICES,), *jobs)).chosen
    assert seconds(tuple(chosen[one.id][0] for one in jobs)) == pytest.approx(best)


def test_everybody_has_one_first_as_they_came() -> None:
    jobs = [
        job("long", (1.0, 2.0), remaining=1e6),
        *(job(f"{i}", (1.0,), remaining=1.0) for i in "xyz"),
    ]
    assert Optimus().decide(view((3,), *jobs)).chosen == {"long": (1,), "x": (1,), "y": (1,)}


def test_nothing_is_given_that_gains_nothing() -> None:
    assert Optimus().decide(view((4,), job("x", (1.0, 1.5, 1.5, 1.2), remaining=9.0))).chosen == {
        "x": (2,)
    }
