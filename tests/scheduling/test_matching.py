from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from staves.scheduling._matching import matched

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=200)
def test_it_costs_what_matching_every_slot_on_its_own_costs(seed: int) -> None:
    """Also where some jobs cannot have some kinds, and where slots or jobs are too many."""
    rng = np.random.default_rng(seed)
    jobs, kinds = int(rng.integers(1, 12)), int(rng.integers(1, 5))
    cost = 10 ** rng.uniform(-3, 3, (jobs, kinds))
    cost[rng.random(cost.shape) < rng.choice([0.0, 0.3])] = np.inf
    slots = rng.integers(0, 5, kinds)
    found = matched(cost, slots.tolist())
    assert all((found == k).sum() <= slots[k] for k in range(kinds))

    each = np.repeat(cost, slots, axis=1)  # a column for every slot
    nothing = 1e6  # a column for every job that goes without
    wide = np.column_stack([np.where(np.isfinite(each), each, 1e9), np.full((jobs, jobs), nothing)])
    row, column = linear_sum_assignment(wide)
    assert (found < 0).sum() == (column >= each.shape[1]).sum()
    has = found >= 0
    expected = wide[row, column][column < each.shape[1]].sum()
    assert cost[has, found[has]].sum() == pytest.approx(expected)


def test_a_job_gives_way_along_a_chain() -> None:
    cost = np.array([[1.0, 2.0, np.inf], [1.0, np.inf, np.inf], [np.inf, 1.0, 3.0]])
    assert matched(cost, [1, 1, 1]).tolist() == [1, 0, 2]
    assert matched(cost, [1, 1, 0]).tolist() == [-1, 0, 1]


def test_nobody_and_nothing() -> None:
    assert matched(np.zeros((0, 2)), [1, 1]).tolist() == []
    assert matched(np.ones((2, 1)), [0]).tolist() == [-1, -1]
