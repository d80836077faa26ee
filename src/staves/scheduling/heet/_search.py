"""From prices to the best whole choice: a search among the few choices that prices leave open.

At the prices of the linear relaxation every configuration of a job loses something against the
job's best one, and every free device its price. The best whole choice is that of the least loss in
all, and what alone loses more than that cannot be part of it. Few configurations are left, and a
dynamic programme over the devices in use goes through all of them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from staves.scheduling.heet._relaxation import Instance

Array = NDArray[np.float64]
Columns = NDArray[np.int64]

_FIRST_LIMIT, _WIDER, _MOST_TRIES = 1e-4, 2.0, 13  # of the bound; growth while nothing is within
_MOST_STATES = 5000  # beyond, the integer programme is as fast
_NOISE = 1e-9


def search(problem: Instance, price: Array) -> NDArray[np.bool_] | None:
    """Return the columns of a best choice, (C,); None where that takes too long to find.

    Exact whatever the prices are; the nearer they are to those of the relaxation, the shorter.
    """
    if math.prod((problem.capacity + 1).tolist()) >= 2**62:
        return None  # states could not be told apart by one number
    profit = problem.utility - problem.counts @ price
    best = np.zeros(problem.jobs)  # that of nothing at all
    np.maximum.at(best, problem.owner, profit)
    loss = best[problem.owner] - profit
    bound = float(best.sum() + price @ problem.capacity)
    limit = _FIRST_LIMIT * max(bound, _NOISE)
    for _ in range(_MOST_TRIES):
        found = _within(problem, price, loss, best, limit + _NOISE)
        if found is None or found.any():
            return found
        limit *= _WIDER
    return None


def _within(
    problem: Instance, price: Array, loss: Array, best: Array, limit: float
) -> NDArray[np.bool_] | None:
    """Return the choice of least loss up to `limit`; no column where there is none that small.

    None where too many are within it.
    """
    columns = np.flatnonzero(loss <= limit)
    optional = best <= limit
    ways = np.bincount(problem.owner[columns], minlength=len(best)) + optional
    taken = np.zeros(len(loss), dtype=bool)
    sure = columns[(ways == 1)[problem.owner[columns]]]
    taken[sure] = True
    used = problem.counts[sure].sum(axis=0)[None]
    lost = np.array([loss[sure].sum() + best[(ways == 1) & optional].sum()])
    steps = []
    for job in np.flatnonzero(ways > 1).tolist():
        mine = columns[problem.owner[columns] == job]
        need, more, name = problem.counts[mine], loss[mine], mine
        if optional[job]:
            need = np.concatenate([need, np.zeros_like(need[:1])])
            more, name = np.append(more, best[job]), np.append(name, -1)
        steps.append((need, more, name))
    later_least = _after([need.min(axis=0) for need, _, _ in steps], used.shape[1])
    later_most = _after([need.max(axis=0) for need, _, _ in steps], used.shape[1])
    radix = np.cumprod(np.append(1, problem.capacity[:-1] + 1))
    trail: list[tuple[Columns, Columns]] = []
    for (need, more, name), least, most in zip(steps, later_least, later_most, strict=True):
        everything = (used[:, None] + need).reshape(-1, need.shape[1])
        loses = (lost[:, None] + more).ravel()
        idle = np.maximum(problem.capacity - everything - most, 0) @ price
        fits = (everything + least <= problem.capacity).all(axis=1) & (loses + idle <= limit)
        kept = np.flatnonzero(fits)
        # Of states that use the same devices the one that lost least, the first of equals.
        state = everything[kept] @ radix
        order = np.lexsort((kept, loses[kept], state))
        kept = kept[order[np.append(True, np.diff(state[order]) != 0)]] if len(kept) else kept
        if len(kept) > _MOST_STATES:
            return None
        trail.append((kept // len(name), name[kept % len(name)]))
        used, lost = everything[kept], loses[kept]
    total = lost + (problem.capacity - used) @ price
    total[(used > problem.capacity).any(axis=1)] = np.inf
    if not (total <= limit).any():
        return np.zeros_like(taken)
    at = int(total.argmin())
    for parent, name in reversed(trail):
        if name[at] >= 0:
            taken[name[at]] = True
        at = int(parent[at])
    return taken


def _after(needs: list[Columns], types: int) -> list[Columns]:
    """Return for each step the sum of what comes after it."""
    total, sums = np.zeros(types, dtype=np.int64), []
    for need in reversed(needs):
        sums.append(total)
        total = total + need
    return sums[::-1]
