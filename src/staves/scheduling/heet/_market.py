"""The decision about many jobs: exactly where that is quick, else by prices and trades.

`choose` proves its answer the best of all, at a cost that grows faster than the number of jobs.
Here the cost is near-linear in it, and a bound tells how far from the best the answer can be.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from staves.scheduling.heet._choose import MANY, Solution, at_once, solve
from staves.scheduling.heet._prices import Prices, prices
from staves.scheduling.heet._relaxation import Instance
from staves.scheduling.heet._search import losses
from staves.scheduling.heet._trades import Trading

Mask = NDArray[np.bool_]
Columns = NDArray[np.int64]

_FEW, _FINE = 1000, 2e-3
"""Where the search gives up: columns up to which an integer programme takes a fraction of a second;
and what may be missing of the bound for it to be spared beyond, up to `MANY`."""

_NOISE = 1e-9
_ENOUGH = 2e-4  # of the bound: missing less, jobs trade no more


def decide(problem: Instance, must: Mask, held: Columns) -> Solution:
    """Return a choice of one column or none for each job, with its bound and its prices.

    Args:
        problem: the columns of all jobs.
        must: of each job, whether it must have something, (J,); it has a column then. If they can
            all keep what they have, they all have something.
        held: what jobs that must have something have already.
    """
    if (easy := at_once(problem, must)) is not None:
        return easy
    found = market(problem, must, held)
    near = found.bound - found.value <= _FINE * found.bound
    if len(problem.utility) > MANY or (near and len(problem.utility) > _FEW):
        return found
    if not _all(problem, must, found.columns):
        return replace(solve(problem, must), prices=found.prices)
    return _best(problem, must, found)


def _best(problem: Instance, must: Mask, found: Solution) -> Solution:
    """Return the best choice, given one in which all jobs that must have something have it.

    What alone loses more at its prices than it misses of its bound is part of no better choice.
    """
    assert found.prices is not None, "a market tells its prices"
    loss, _, bound = losses(problem, found.prices, must)
    kept = np.flatnonzero(loss <= (bound - found.value) * (1 + _NOISE) + _NOISE * bound)
    few = Instance(
        problem.utility[kept],
        problem.counts[kept],
        problem.owner[kept],
        problem.jobs,
        problem.capacity,
    )
    best = solve(few, must)
    return Solution(kept[best.columns], best.value, min(found.bound, best.bound), found.prices)


def market(problem: Instance, must: Mask, held: Columns) -> Solution:
    """Return a choice by prices and trades; arguments as of `decide`."""
    # What a job that must have something gains by it is more than all others together can gain.
    lift = 1.0 + 2.0 * float(problem.utility[problem.best(problem.utility)].sum())
    lifted = problem
    if must.any():
        lifted = Instance(
            problem.utility + np.where(must, lift, 0.0)[problem.owner],
            problem.counts,
            problem.owner,
            problem.jobs,
            problem.capacity,
        )
    certain = float(must.sum()) * lift
    priced = prices(lifted, _ENOUGH, certain)
    enough = _ENOUGH * (priced.bound - certain)
    columns = _traded(lifted, priced, enough)
    if not _all(problem, must, columns) and _all(problem, must, held):
        columns = _traded(lifted, replace(priced, start=held), enough)
    value = float(problem.utility[columns].sum())
    have = int(must[problem.owner[columns]].sum())
    return Solution(columns, value, max(priced.bound - have * lift, value), priced.of_types)


def _traded(problem: Instance, priced: Prices, enough: float) -> Columns:
    trading = Trading(problem, priced)
    trading.run(enough)
    return np.sort(trading.columns)


def _all(problem: Instance, must: Mask, columns: Columns) -> bool:
    """Say whether all jobs that must have something have one of these columns, and these fit."""
    have = np.bincount(problem.owner[columns], minlength=problem.jobs) > 0
    return bool(have[must].all() and (problem.used(columns) <= problem.capacity).all())
