from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

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

    # As a linear programme of jobs by kinds, and a last kind for who goes without, at a high price.
    nothing = 1e6
    wide = np.column_stack([np.where(np.isfinite(cost), cost, 1e9), np.full(jobs, nothing)])
    each_job = np.kron(np.eye(jobs), np.ones(kinds + 1))
    each_kind = np.kron(np.ones(jobs), np.eye(kinds + 1))[:kinds]
    best = linprog(wide.ravel(), each_kind, slots, each_job, np.ones(jobs))
    assert best.x is not None
    share = best.x.reshape(wide.shape)
    assert (found < 0).sum() == pytest.approx(share[:, -1].sum())
    has = found >= 0
    expected = (wide * share)[:, :-1].sum()
    assert cost[has, found[has]].sum() == pytest.approx(expected)


def test_a_job_gives_way_along_a_chain() -> None:
    cost = np.array([[1.5, 2.0, np.inf], [1.0, np.inf, np.inf], [np.inf, 1.0, 3.0]])
    assert matched(cost, [1, 1, 1]).tolist() == [1, 0, 2]
    assert matched(cost, [1, 1, 0]).tolist() == [-1, 0, 1]


def test_costs_of_very_unlike_size_come_to_an_end_and_keep_their_digits() -> None:
    """Rounding beside the largest must neither lead in circles nor hide the small ones."""
    rng = np.random.default_rng(0)
    cost = 10 ** rng.uniform(-6, 12, (200, 3))
    found = matched(cost, [24, 24, 16])
    assert np.bincount(found[found >= 0]).tolist() == [24, 24, 16]
    small = np.array([[1e-6, 2e-6], [1e-6, 3e-6], [1e12, 1e12]])
    assert matched(small, [1, 1]).tolist() == [1, 0, -1]


def test_of_jobs_alike_the_first_have_the_slots() -> None:
    assert matched(np.ones((5, 1)), [2]).tolist() == [0, 0, -1, -1, -1]
    assert matched(np.array([[2.0], [1.0], [2.0]]), [2]).tolist() == [0, 0, -1]


def test_nobody_and_nothing() -> None:
    assert matched(np.zeros((0, 2)), [1, 1]).tolist() == []
    assert matched(np.ones((2, 1)), [0]).tolist() == [-1, -1]
