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

from staves.scheduling.heet._relaxation import Instance, runs

Array = NDArray[np.float64]
Columns = NDArray[np.int64]
Mask = NDArray[np.bool_]

_FIRST_LIMIT, _WIDER, _MOST_TRIES = 1e-4, 2.0, 13  # of the bound; growth while nothing is within
_MOST_STATES = 5000  # beyond, the integer programme is as fast
_NOISE = 1e-9


def search(problem: Instance, price: Array, must: Mask | None = None) -> Mask | None:
    """Return the columns of a best choice, (C,); None where that takes too long to find.

    Exact whatever the prices are; the nearer they are to those of the relaxation, the shorter.

    Args:
        problem: the columns of all jobs.
        price: of one device of each type, (G,).
        must: of each job, whether it must have something, (J,); it has a column then.
    """
    if math.prod((problem.capacity + 1).tolist()) >= 2**62:
        return None  # states could not be told apart by one number
    loss, without, bound = losses(problem, price, must)
    limit = _FIRST_LIMIT * max(bound, _NOISE)
    for _ in range(_MOST_TRIES):
        found = _within(problem, price, loss, without, limit + _NOISE)
        if found is None or found.any():
            return found
        limit *= _WIDER
    return None


def losses(problem: Instance, price: Array, must: Mask | None = None) -> tuple[Array, Array, float]:
    """Return what each column, (C,), and each job without any, (J,), loses at these prices, (G,).

    And the bound of a choice's value at these prices. What a choice misses of that is the sum of
    what its jobs lose, and of the price of what it leaves free. A job that `must` have something,
    (J,), loses infinitely much without.
    """
    free = np.ones(problem.jobs, dtype=bool) if must is None else ~must
    profit = problem.utility - price @ problem.by_type
    best = np.zeros(problem.jobs)  # that of nothing at all
    begin, size = problem.runs
    some = problem.owner[begin]
    most = np.maximum.reduceat(profit, begin)
    best[some] = np.where(free[some], np.maximum(most, 0.0), most)
    bound = float(best.sum() + price @ problem.capacity)
    return np.repeat(best[some], size) - profit, np.where(free, best, np.inf), bound


def _within(
    problem: Instance, price: Array, loss: Array, without: Array, limit: float
) -> Mask | None:
    """Return the choice of least loss up to `limit`; no column where there is none that small.

    None where too many are within it. A job that gets nothing loses `without`, (J,).
    """
    none = np.zeros(len(loss), dtype=bool)
    columns = np.flatnonzero(loss <= limit)
    optional = without <= limit
    room = problem.capacity.astype(np.float64)[:, None]
    # The jobs that have columns here, and what those take at least and at most, (G, R).
    owner, need, more = problem.owner[columns], problem.by_type[:, columns], loss[columns]
    if not len(columns):
        return none
    begin, size = runs(owner)
    jobs = owner[begin]
    least = np.where(optional[jobs], 0.0, np.minimum.reduceat(need, begin, axis=1))
    most = np.maximum.reduceat(need, begin, axis=1)
    if (least.sum(axis=1)[:, None] > room).any():
        return none
    if price @ np.maximum(room[:, 0] - most.sum(axis=1), 0.0) > limit:
        return none
    open_ = size + optional[jobs] > 1
    sure = begin[~open_]
    used, lost = need[:, sure].sum(axis=1)[:, None], more[sure].sum()[None]  # by state
    later_least, later_most = _after(least[:, open_]), _after(most[:, open_])
    radix = np.cumprod(np.append(1, problem.capacity[:-1] + 1))
    trail: list[tuple[Columns, Columns]] = []
    steps = zip(jobs[open_].tolist(), begin[open_].tolist(), size[open_].tolist(), strict=True)
    for step, (job, first, count) in enumerate(steps):
        mine = slice(first, first + count)
        takes, loses, name = need[:, mine], more[mine], columns[mine]
        if optional[job]:
            takes = np.concatenate([takes, np.zeros_like(takes[:, :1])], axis=1)
            loses, name = np.append(loses, without[job]), np.append(name, -1)
        everything = (used[:, :, None] + takes[:, None]).reshape(len(price), -1)
        all_lost = (lost[:, None] + loses).ravel()
        idle = price @ np.maximum(room - later_most[:, step, None] - everything, 0.0)
        fits = (everything <= room - later_least[:, step, None]).all(axis=0)
        kept = np.flatnonzero(fits & (all_lost + idle <= limit))
        if not len(kept):
            return none
        if len(kept) > 1:
            # Of states that use the same devices the one that lost least, the first of equals.
            state = radix @ everything[:, kept].astype(np.int64)
            order = np.lexsort((all_lost[kept], state))
            kept = kept[order[runs(state[order])[0]]]
            if len(kept) > _MOST_STATES:
                return None
        trail.append((kept // len(name), name[kept % len(name)]))
        used, lost = everything[:, kept], all_lost[kept]
    total = lost + price @ (room - used)
    at = int(total.argmin())
    if total[at] > limit:
        return none
    taken = none
    taken[columns[sure]] = True
    for parent, name in reversed(trail):
        if name[at] >= 0:
            taken[name[at]] = True
        at = int(parent[at])
    return taken


def _after(needs: Array) -> Array:
    """Return for each job what all after it need, (G, R), given what each needs."""
    after: Array = needs[:, ::-1].cumsum(axis=1)[:, ::-1] - needs
    return after
