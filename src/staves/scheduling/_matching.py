"""Minimum-weight full bipartite matching of jobs to slots, many of which are alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def matched(cost: Array, slots: Sequence[int]) -> NDArray[np.int64]:
    """Return the kind of slot of each job, (J,), -1 for none, at the smallest sum of costs.

    The matching is full: every job has a slot, or every slot a job, as far as costs are finite.
    Every single slot is a column of its own for SciPy's shortest augmenting paths. Of jobs of the
    same costs those that come first have the slots.

    Args:
        cost: (J, K); inf where a job cannot have a slot of the kind.
        slots: how many slots of each kind there are, (K,).
    """
    # Loads for longer than most simulations decide.
    from scipy.optimize import linear_sum_assignment

    jobs = len(cost)
    kind = np.repeat(np.arange(len(slots)), np.minimum(slots, jobs))
    each = cost[:, kind]
    try:
        row, column = linear_sum_assignment(each)
    except ValueError:  # no full matching is finite: some go without, though there are slots
        # Their price is beyond what any chain of moves could save. It is not asked where nobody
        # has to pay it: it would cost the others their digits.
        finite = np.abs(each[np.isfinite(each)])
        beyond = 1.0 + 2.0 * float(finite.max(initial=0.0)) * (min(each.shape) + 1)
        row, column = linear_sum_assignment(np.column_stack([each, np.full((jobs, jobs), beyond)]))
    where = np.full(jobs, -1)
    has = column < len(kind)
    where[row[has]] = kind[column[has]]
    return _in_order(where, cost)


def _in_order(where: NDArray[np.int64], cost: Array) -> NDArray[np.int64]:
    """Return `where` with the slots of jobs of the same costs given to the first of them."""
    alike: dict[bytes, list[int]] = {}
    for j, row in enumerate(np.ascontiguousarray(cost)):
        alike.setdefault(row.tobytes(), []).append(j)
    ordered = where.copy()
    for members in alike.values():
        if len(members) > 1:
            # A stable order: who has none comes last, the others as they were.
            ordered[members] = sorted(where[members].tolist(), key=lambda kind: kind < 0)
    return ordered
