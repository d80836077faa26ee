from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.errors import InputError
from staves.estimation.filtering import Cell, Gaussian, choose_probe
from tests.estimation.filtering.worlds import CELLS, covariance, space

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_no_other_probe_leaves_less_variance(seed: int) -> None:
    """Oracle: every probe is tried, whatever its result would be."""
    rng = np.random.default_rng(seed)
    believed = Gaussian(np.zeros(len(CELLS)), covariance(rng, len(CELLS)))
    candidates = [CELLS[i] for i in rng.permutation(len(CELLS))[: int(rng.integers(1, 9))]]
    index = space().index(candidates)

    def left(cell: Cell) -> float:
        after = believed.given(space().index([cell]), rng.normal(size=1), 1e-4)
        return float(after.variance[index].sum())

    probe = choose_probe(believed, space(), candidates, 1e-4)
    assert probe is not None
    assert left(probe.cell) <= min(map(left, candidates)) + 1e-9
    assert probe.cell in candidates


@given(seeds)
def test_it_stops_where_it_costs_more_than_it_averts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 10 ** rng.uniform(-3, 0)
    believed = Gaussian(np.zeros(len(CELLS)), size * covariance(rng, len(CELLS)))
    free = choose_probe(believed, space(), CELLS, 1e-4, cost=0.0)
    assert free is not None
    assert free.averted > 0
    assert not free.stop
    below, above = (
        choose_probe(believed, space(), CELLS, 1e-4, cost=free.averted * factor)
        for factor in (0.99, 1.01)
    )
    assert below is not None
    assert above is not None
    assert (below.stop, above.stop) == (False, True)


def test_nothing_left_is_no_probe() -> None:
    believed = Gaussian(np.zeros(len(CELLS)), np.eye(len(CELLS)))
    assert choose_probe(believed, space(), [], 1e-4) is None


@pytest.mark.parametrize("cost", [-0.1, float("nan"), float("inf")])
def test_costs_that_are_none_are_refused(cost: float) -> None:
    believed = Gaussian(np.zeros(len(CELLS)), np.eye(len(CELLS)))
    with pytest.raises(InputError, match="cost"):
        choose_probe(believed, space(), CELLS, 1e-4, cost)
