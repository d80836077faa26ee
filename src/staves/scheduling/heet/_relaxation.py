"""The linear relaxation of the decision, by a simplex method whose basis is as small as the types.

Each job's shares add up to one, so that one of its configurations, its key, follows from the
others: generalised upper bounding (Dantzig and Van Slyke, J. Comput. Syst. Sci. 1967). What is left
is a system of one row for each device type, where a general solver has one for each job as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Columns = NDArray[np.int64]
Mask = NDArray[np.bool_]

_NOISE, _WORTH_THE_SAME = 1e-9, 1e-8


@dataclass(frozen=True, eq=False)
class Instance:
    """A choice of one configuration, or none, for each job.

    Args:
        utility: of each configuration, (C,).
        counts: devices of each type that it takes, (C, G); types stand for whatever else there is
            only so much of, too: a tenant's quota is one more.
        owner: its job, (C,), ascending.
        jobs: how many, J.
        capacity: devices of each type, (G,).
        start: a choice to begin the search of the relaxation from; it need not fit.
    """

    utility: Array
    counts: Columns
    owner: Columns
    jobs: int
    capacity: Columns
    start: Columns | None = None

    @cached_property
    def by_type(self) -> Array:
        """The devices of each type, (G, C): sums over few types are fastest type by type."""
        return np.ascontiguousarray(self.counts.T, dtype=np.float64)

    @cached_property
    def runs(self) -> tuple[Columns, Columns]:
        """Where the columns of each job that has some begin, and how many they are, (R,) both."""
        return runs(self.owner)

    def profit(self, prices: Array) -> Array:
        """Return the utility of each column less the price of its devices, (C,)."""
        profit = self.utility.copy()
        for price, counts in zip(prices.tolist(), self.by_type, strict=True):
            if price:
                profit -= price * counts
        return profit

    def best(self, profit: Array) -> Columns:
        """Return the first column of most profit of each job that has some above 0."""
        begin, size = self.runs
        if not len(begin):
            return begin
        most = np.maximum.reduceat(profit, begin)
        first = np.flatnonzero(profit == np.repeat(np.where(most > 0, most, np.inf), size))
        kept: Columns = first[runs(self.owner[first])[0]]
        return kept

    def used(self, columns: Columns) -> Columns:
        """Return the devices of each type that these columns take together, (G,)."""
        total: Columns = self.by_type[:, columns].sum(axis=1).astype(np.int64)
        return total


def runs(owner: Columns) -> tuple[Columns, Columns]:
    """Return where each run of equals begins, and how long it is; (R,) both."""
    new = np.ones(len(owner) + 1, dtype=bool)
    np.not_equal(owner[1:], owner[:-1], out=new[1:-1])
    if not len(owner):
        return owner, owner
    edges = np.flatnonzero(new)
    begin: Columns = edges[:-1]
    return begin, edges[1:] - begin


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Shares of the configurations, (C,), of the largest sum, and the prices of the types, (G,)."""

    shares: Array
    prices: Array


def relax(problem: Instance, must: Mask | None = None) -> Relaxation | None:
    """Return the best shares; None where steps go round, or rounding has spoilt them.

    Of equal vertices the one that the steps come to first.

    Args:
        problem: the columns of all jobs.
        must: of each job, whether its shares must add up to one, (J,); it has a column then. Where
            they cannot all do so, the result is None.
    """
    if not len(problem.utility):
        return Relaxation(np.zeros(0), np.zeros(len(problem.capacity)))
    wanted = np.zeros(problem.jobs, dtype=bool) if must is None else must
    wanted = wanted[problem.owner[problem.runs[0]]]
    try:
        found = _Simplex(problem, wanted).run()
    except np.linalg.LinAlgError:  # a basis that is singular as far as rounding goes
        return None
    return found if found is not None and _proven(problem, wanted, found) else None


def _proven(problem: Instance, must: Mask, found: Relaxation) -> bool:
    """Say whether shares and prices are feasible and worth the same: then neither can be better."""
    each = np.add.reduceat(found.shares, problem.runs[0])
    used = problem.by_type @ found.shares
    profit = problem.utility - found.prices @ problem.by_type
    best = np.maximum.reduceat(profit, problem.runs[0])
    best = np.where(must, best, np.maximum(best, 0.0))
    value = float(problem.utility @ found.shares)
    rent = float(found.prices @ problem.capacity)
    bound, scale = float(best.sum()) + rent, float(np.abs(best).sum()) + rent
    return bool(
        (each <= 1 + _NOISE).all()
        and (each[must] >= 1 - _NOISE).all()
        and (used <= problem.capacity + _NOISE).all()
        and bound - value <= _WORTH_THE_SAME * max(scale, _NOISE)
    )


class _Simplex:
    """Columns are those of each job that has some, first nothing at all; slacks are below zero.

    `basic` names the G columns of the working basis, `amount` how much there is of each: the share
    of a configuration, or devices that stay free of a type. What a column takes, and what it is
    worth, count beyond its job's key: `inverse` is that of the basis, `gain` the worth of each.

    Nothing at all costs the jobs that `must` have something, (R,), more than all can gain.
    """

    def __init__(self, problem: Instance, must: Mask) -> None:
        begin, size = problem.runs
        jobs, types = len(begin), len(problem.capacity)
        self._columns = len(problem.utility)
        self._at = np.arange(self._columns) + np.repeat(np.arange(jobs), size) + 1
        self._begin = begin + np.arange(jobs)
        self._end = (self._begin + size + 1).tolist()
        self._scale = float(np.abs(problem.utility).max(initial=0.0)) or 1.0
        self._worth = np.zeros(self._columns + jobs)
        self._worth[self._at] = problem.utility / self._scale
        self._worth[self._begin[must]] = -2.0 * jobs
        self._need = np.zeros((types, self._columns + jobs))
        self._need[:, self._at] = problem.by_type
        self._owner = np.repeat(np.arange(jobs), size + 1).tolist()
        self._key = self._begin.copy()
        self._key_share = [1.0] * jobs
        self._basic = [-1 - g for g in range(types)]
        self._inverse = np.eye(types)
        self._gain = np.zeros(types)
        self._amount = problem.capacity.astype(np.float64)
        self._steps = 200 + 20 * problem.jobs
        start = problem.start
        if start is not None and len(start) and (problem.used(start) <= problem.capacity).all():
            columns = self._at[start]
            self._key[[self._owner[column] for column in columns.tolist()]] = columns
            self._amount -= problem.used(start)

    def run(self) -> Relaxation | None:
        first = self._begin.tolist()
        for _ in range(self._steps):
            price = self._gain @ self._inverse
            profit = self._worth - price @ self._need
            better = np.maximum.reduceat(profit, self._begin) - profit[self._key]
            job, slack = int(better.argmax()), int(price.argmin())
            if max(better[job], -price[slack]) <= _NOISE:
                return self._result(np.maximum(price, 0.0))
            if better[job] >= -price[slack]:
                start = first[job]
                self._enter(start + int(profit[start : self._end[job]].argmax()))
            else:
                self._enter(-1 - slack)
        return None

    def _beyond_key(self, column: int) -> tuple[Array, float]:
        """Return the devices that a column takes beyond its job's key, and its worth beyond it."""
        if column < 0:
            unit = np.zeros(len(self._basic))
            unit[-1 - column] = 1.0
            return unit, 0.0
        key = self._key[self._owner[column]]
        return (
            self._need[:, column] - self._need[:, key],
            float(self._worth[column] - self._worth[key]),
        )

    def _enter(self, column: int) -> None:
        """Let there be as much of a column as can be, and let what is used up go."""
        direction, gain = self._beyond_key(column)
        turned = self._inverse @ direction
        falls = turned.tolist()
        slots, most = -1, np.inf
        for slot, (fall, amount) in enumerate(zip(falls, self._amount.tolist(), strict=True)):
            if fall > _NOISE and amount / fall < most:
                slots, most = slot, amount / fall
        mine = -1 if column < 0 else self._owner[column]
        by_key: dict[int, float] = {} if column < 0 else {mine: 1.0}
        for other, fall in zip(self._basic, falls, strict=True):
            if other >= 0:
                job = self._owner[other]
                by_key[job] = by_key.get(job, 0.0) - fall
        leaving = -1
        for job, fall in by_key.items():
            if fall > _NOISE and self._key_share[job] / fall < most:
                leaving, most = job, self._key_share[job] / fall
        self._amount = np.maximum(self._amount - most * turned, 0.0)
        for job, fall in by_key.items():
            self._key_share[job] = max(self._key_share[job] - most * fall, 0.0)
        if leaving < 0:
            self._replace(slots, column, most, turned, gain)
        elif mine == leaving:
            self._new_key(leaving, column, most)
        else:  # one of the job's others takes the key's place, and the new column its place
            slot = next(
                slot
                for slot, other in enumerate(self._basic)
                if other >= 0 and self._owner[other] == leaving and falls[slot] < -_NOISE
            )
            heir, share = self._basic[slot], float(self._amount[slot])
            self._replace(slot, column, most, turned, gain)
            self._new_key(leaving, heir, share)

    def _replace(self, slot: int, column: int, amount: float, turned: Array, gain: float) -> None:
        self._basic[slot], self._amount[slot], self._gain[slot] = column, amount, gain
        row = self._inverse[slot] / turned[slot]
        self._inverse -= turned[:, None] * row
        self._inverse[slot] = row

    def _new_key(self, job: int, column: int, share: float) -> None:
        self._key[job], self._key_share[job] = column, share
        if not any(other >= 0 and self._owner[other] == job for other in self._basic):
            return
        columns = [self._beyond_key(other) for other in self._basic]
        self._inverse = np.linalg.inv(np.column_stack([direction for direction, _ in columns]))
        self._gain = np.array([gain for _, gain in columns])

    def _result(self, price: Array) -> Relaxation:
        shares = np.zeros(len(self._worth))
        shares[self._key] = self._key_share
        for column, amount in zip(self._basic, self._amount.tolist(), strict=True):
            if column >= 0:
                shares[column] = amount
        return Relaxation(shares[self._at], price * self._scale)
