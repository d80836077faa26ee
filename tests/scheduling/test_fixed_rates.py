"""What is kept of rates that are always the same changes no decision."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from staves.scheduling import Rates, View, is_fixed, policy
from staves.testing import random_view


@dataclass(frozen=True, eq=False)
class Fixed:
    rates: Rates
    fixed: bool = True

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.rates(configurations)


@pytest.mark.parametrize("name", ["heet", "pollux", "sia", "optimus", "themis", "gavel"])
def test_decisions_are_the_same(name: str) -> None:
    """Also when jobs come again with other terms, holdings and capacities, as seeds draw them."""
    kept: dict[int, Fixed] = {}

    def fixed(view: View) -> View:
        jobs = []
        for job in view.jobs:
            mine = kept.setdefault(id(job.rates), Fixed(job.rates))
            jobs.append(replace(job, rates=mine))
        return replace(view, jobs=tuple(jobs))

    for seed in range(40):
        view = random_view(seed)
        told = fixed(view)
        assert not any(is_fixed(job.rates) for job in view.jobs)
        assert all(is_fixed(job.rates) for job in told.jobs)
        for _ in range(2):  # the second time from what was kept
            assert policy(name).decide(told).chosen == policy(name).decide(view).chosen
        halved = replace(view, capacity=tuple(n // 2 for n in view.capacity))
        halved = replace(halved, jobs=tuple(replace(job, current=None) for job in view.jobs))
        again = policy(name).decide(replace(fixed(halved), nodes=view.nodes)).chosen
        assert again == policy(name).decide(halved).chosen
