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

_MOST_PLANS = 200
_PULL = 0.5


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices of the types, (G,), and what no choice is worth more than: the dual value there."""

    of_types: Array
    bound: float


def prices(problem: Instance, enough: float) -> Prices:
    """Return prices whose bound is the relaxation's value, or above it by no more than `enough`.

    Where rounding, or the number of plans, ends the search before that, the best bound so far.
    """
    at = np.zeros(len(problem.capacity))
    best = Prices(at, np.inf)
    values: list[float] = []
    uses: list[NDArray[np.int64]] = []
    while len(values) < _MOST_PLANS:
        plan = problem.best(problem.profit(at))
        value, use = float(problem.utility[plan].sum()), problem.used(plan)
        bound = value + float(at @ (problem.capacity - use))
        if bound < best.bound:
            best = Prices(at, bound)
        values.append(value)
        uses.append(use)
        mixture = relax(
            Instance(
                np.array(values),
                np.array(uses),
                np.zeros(len(values), dtype=np.int64),
                1,
                problem.capacity,
            )
        )
        if mixture is None or best.bound - mixture.shares @ values <= enough:
            break
        at = _PULL * best.of_types + (1 - _PULL) * mixture.prices
    return best
