"""Choices for many jobs, seeded, and what a general solver makes of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from staves.scheduling.heet._relaxation import Instance


def many(seed: int, jobs: int, *, types: int = 3, alike: bool = False) -> Instance:
    """Return jobs that gain less and less from more devices, of one type or mixed.

    Args:
        seed: of what is drawn.
        jobs: how many.
        types: of devices, of which there is one to two for each job.
        alike: whether all jobs are the same one.
    """
    rng = np.random.default_rng([seed, jobs, types])
    capacity = 1 + rng.integers(jobs // types, 2 * jobs // types + 2, types)
    utility, counts, owner = [], [], []
    for job in range(jobs):
        if alike:
            rng = np.random.default_rng(seed)
        sizes = rng.choice(9, 12) + 1
        table = np.zeros((12, types), dtype=np.int64)
        table[np.arange(12), rng.integers(0, types, 12)] = sizes
        table[:4] += rng.integers(0, 3, (4, types))
        table = np.minimum(table, capacity)
        table = np.unique(table[table.any(axis=1)], axis=0)
        speed, weight = 10 ** rng.uniform(0, 0.7, types), 10 ** rng.uniform(-1, 1)
        counts.append(table)
        utility.append(weight * (table @ speed) ** rng.uniform(0.3, 1.0) + 1e-3)
        owner.append(np.full(len(table), job))
    return Instance(
        np.concatenate(utility), np.concatenate(counts), np.concatenate(owner), jobs, capacity
    )


def solved(
    problem: Instance, must: NDArray[np.bool_] | None = None, *, whole: bool = True
) -> float:
    """Return the greatest sum by HiGHS, of whole choices (within 1e-4) or of shares."""
    size, jobs = len(problem.utility), np.arange(problem.jobs)
    if not size:
        return 0.0
    rows = np.concatenate([jobs[:, None] == problem.owner, problem.counts.T])
    least = np.zeros(len(rows))
    if must is not None:
        least[: problem.jobs] = must
    found = milp(
        -problem.utility,
        integrality=np.full(size, int(whole)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(
            rows, least, np.append(np.ones(problem.jobs), problem.capacity)
        ),
        options={"mip_rel_gap": 1e-4},
    )
    assert found.x is not None
    return float(problem.utility @ found.x)
