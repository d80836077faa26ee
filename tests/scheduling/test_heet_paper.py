from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from staves.scheduling import HeetPaper
from staves.scheduling._heet_paper import prices, slot_size
from staves.scheduling._ladders import ladders
from tests.scheduling.curves import concave, job, view


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_the_matching_is_full_and_of_the_smallest_sum_of_prices(seed: int) -> None:
    """As SciPy's matching of jobs to every single slot says; one device a slot, so no trades."""
    rng = np.random.default_rng(seed)
    capacity = (3, 2)
    jobs = [
        job(f"{i}", concave(rng, 2), concave(rng, 2), remaining=float(rng.uniform(1, 100)))
        for i in range(int(rng.integers(5, 9)))
    ]
    decision = HeetPaper().decide(view(capacity, *jobs))
    speed = np.array([[one.rates(np.eye(2, dtype=np.int64))[g] for g in range(2)] for one in jobs])
    price = np.array([[one.remaining] for one in jobs]) / speed
    row, column = linear_sum_assignment(np.repeat(price, capacity, axis=1))
    best = np.repeat(price, capacity, axis=1)[row, column].sum()
    paid = sum(
        price[j, int(np.argmax(decision.chosen[one.id]))]
        for j, one in enumerate(jobs)
        if one.id in decision.chosen
    )
    assert len(decision.chosen) == 5
    assert paid == pytest.approx(best)


def test_the_price_is_remaining_time_over_scaling_efficiency() -> None:
    one = job("x", (2.0, 3.0), remaining=12.0)
    # R / X(2) = 4 s; efficiency 3 / (2 x 2) = 0.75; s = 2
    expected = 4.0 / (2 * 0.75)
    assert prices(ladders([one], [2]), np.array([[2]]))[0, 0] == pytest.approx(expected)


def test_slots_are_small_where_jobs_are_many() -> None:
    sizes = [slot_size(jobs, [24, 24, 16]) for jobs in (1, 4, 10, 32, 40, 64, 100)]
    assert sizes == [16, 16, 8, 2, 2, 1, 1]


def test_a_device_goes_from_who_loses_least_to_who_waits() -> None:
    """Two slots of two, three jobs: 2 (1.2 - 1) / 1.2 = 0.33 is asked, 1 / 1.2 = 0.83 offered."""
    jobs = [job(f"{i}", (1.0, 1.2), remaining=10.0 + i) for i in range(3)]
    chosen = HeetPaper().decide(view((4,), *jobs)).chosen
    assert sorted(chosen.values()) == [(1,), (1,), (2,)]
    dear = [job(f"{i}", (1.0, 1.9), remaining=10.0 + i) for i in range(3)]
    # 2 (1.9 - 1) / 1.9 = 0.95 is asked, 1 / 1.9 = 0.53 offered.
    assert HeetPaper().decide(view((4,), *dear)).chosen == {"0": (2,), "1": (2,)}
