"""Prices of the device types: at these every job buys what is best for it, and few want too much.

The dual of the relaxation has one price for each type, however many jobs there are. At any prices
the jobs' purchases make one plan for all of them, feasible or not; the best mixture of the plans so
far gives the next prices (Dantzig and Wolfe, Oper. Res. 1960), and half of the way there from the
best prices so far they swing less (Pessoa, Sadykov, Uchoa and Vanderbeck, INFORMS J. Comput. 2018).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.scheduling.heet._relaxation import Instance, relax

Array = NDArray[np.float64]
Columns = NDArray[np.int64]

_MOST_PLANS = 200
_PULL = 0.5
_GOLDEN = (5**0.5 - 1) / 2  # its multiples fill the unit interval evenly


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices of the types, and what may be had at these.

    Args:
        of_types: of one device of each type, (G,).
        bound: what no choice is worth more than: the dual value.
        start: columns that make up about the best mixture of plans, one of each job at most; they
            may take somewhat more devices than there are.
    """

    of_types: Array
    bound: float
    start: Columns


def prices(problem: Instance, gap: float, certain: float = 0.0) -> Prices:
    """Return prices whose bound is the relaxation's value, or little more.

    Where rounding, or the number of plans, ends the search before that, the best bound so far.

    Args:
        problem: what jobs may buy.
        gap: by how much the bound may be too large, as a part of it.
        certain: what does not count of the bound in that.
    """
    at = best = np.zeros(len(problem.capacity))
    bound = np.inf
    plans: list[Columns] = []
    values: list[float] = []
    uses: list[Columns] = []
    shares = np.ones(1)
    while len(plans) < _MOST_PLANS:
        plan = problem.best(problem.profit(at))
        value, use = float(problem.utility[plan].sum()), problem.used(plan)
        dual = value + float(at @ (problem.capacity - use))
        if dual < bound:
            bound, best = dual, at
        plans.append(plan)
        values.append(value)
        uses.append(use)
        # One job, as it were, whose configurations are the plans.
        same = np.zeros(len(plans), dtype=np.int64)
        mixture = relax(Instance(np.array(values), np.array(uses), same, 1, problem.capacity))
        if mixture is None:
            break
        shares = mixture.shares
        if bound - shares @ values <= gap * (bound - certain):
            break
        at = _PULL * best + (1 - _PULL) * mixture.prices
    return Prices(best, bound, _mixed(problem, plans, shares))


def _mixed(problem: Instance, plans: list[Columns], shares: Array) -> Columns:
    """Return what each job does in one of the plans, of each plan as many jobs as its share says.

    Neighbours among the jobs that plans treat differently take part in different ones.
    """
    used = np.flatnonzero(shares > 0)
    told = np.full((len(used) + 1, problem.jobs), -1, dtype=np.int64)  # the last: nothing
    for row, number in enumerate(used.tolist()):
        told[row, problem.owner[plans[number]]] = plans[number]
    ends = np.cumsum(shares[used])
    torn = np.flatnonzero((told[: len(used)] != told[:1]).any(axis=0))
    spread = np.arange(len(torn)) * _GOLDEN % 1.0
    start = told[0].copy()
    start[torn] = told[np.searchsorted(ends, spread, side="right"), torn]
    found: Columns = start[start >= 0]
    return found
