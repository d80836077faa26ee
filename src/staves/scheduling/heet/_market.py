"""The decision about many jobs: exactly where that is quick, else by prices and trades.

`choose` proves its answer the best of all, at a cost that grows faster than the number of jobs.
Here the cost is near-linear in it, and a bound tells how far from the best the answer can be.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from staves.scheduling.heet._choose import MANY, Solution, at_once, solve
from staves.scheduling.heet._prices import prices
from staves.scheduling.heet._relaxation import Instance
from staves.scheduling.heet._trades import Trading

Mask = NDArray[np.bool_]

_FEW, _FINE = 1000, 2e-3
"""Where the search gives up: columns up to which an integer programme takes a fraction of a second;
and what may be missing of the bound for it to be spared beyond, up to `MANY`."""

_ENOUGH = 2e-4  # of the bound: missing less, jobs trade no more


def decide(problem: Instance, must: Mask) -> Solution:
    """Return a choice of one column or none for each job, with its bound and its prices.

    Args:
        problem: the columns of all jobs.
        must: of each job, whether it must have something, (J,); it has a column then. Where not
            all such jobs can, as many do as are found to fit.
    """
    if (easy := at_once(problem, must)) is not None:
        return easy
    if len(problem.utility) > _FEW:
        found = market(problem, must)
        if len(problem.utility) > MANY or found.bound - found.value <= _FINE * found.bound:
            return found
    best = solve(problem, must)
    return replace(best, prices=prices(problem, _ENOUGH * best.bound).of_types)


def market(problem: Instance, must: Mask) -> Solution:
    """Return a choice by prices and trades; arguments as of `decide`."""
    best = problem.utility[problem.best(problem.utility)].sum()
    enough = _ENOUGH * float(best)
    # What a job that must have something gains by it is more than all others together can gain.
    lift = np.where(must, 1.0 + 2.0 * float(best), 0.0)
    lifted = problem
    if must.any():
        lifted = Instance(
            problem.utility + lift[problem.owner],
            problem.counts,
            problem.owner,
            problem.jobs,
            problem.capacity,
        )
    priced = prices(lifted, enough)
    trading = Trading(lifted, priced)
    trading.run(enough)
    columns = np.sort(trading.columns)
    value = float(problem.utility[columns].sum())
    have = int(must[problem.owner[columns]].sum())
    bound = priced.bound - have * float(lift.max(initial=0.0))
    return Solution(columns, value, max(bound, value), priced.of_types)
