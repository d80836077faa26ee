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

_NOISE, _WORTH_THE_SAME = 1e-9, 1e-8


@dataclass(frozen=True, eq=False)
class Instance:
    """A choice of one configuration, or none, for each job.

    Args:
        utility: of each configuration, (C,).
        counts: devices of each type that it takes, (C, G).
        owner: its job, (C,), ascending.
        jobs: how many, J.
        capacity: devices of each type, (G,).
    """

    utility: Array
    counts: Columns
    owner: Columns
    jobs: int
    capacity: Columns

    @cached_property
    def by_type(self) -> Array:
        """The devices of each type, (G, C): sums over few types are fastest type by type."""
        return np.ascontiguousarray(self.counts.T, dtype=np.float64)

    @cached_property
    def runs(self) -> tuple[Columns, Columns]:
        """Where the columns of each job that has some begin, and how many they are, (R,) both."""
        begin = np.flatnonzero(np.diff(self.owner, prepend=-1))
        return begin, np.diff(np.append(begin, len(self.owner)))

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
        kept: Columns = first[np.diff(self.owner[first], prepend=-1) != 0]
        return kept

    def used(self, columns: Columns) -> Columns:
        """Return the devices of each type that these columns take together, (G,)."""
        total: Columns = self.by_type[:, columns].sum(axis=1).astype(np.int64)
        return total


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Shares of the configurations, (C,), of the largest sum, and the prices of the types, (G,)."""

    shares: Array
    prices: Array


def relax(problem: Instance) -> Relaxation | None:
    """Return the best shares; None where steps go round, or rounding has spoilt them.

    Starts with nothing for anybody. Of equal vertices the one that the steps come to first.
    """
    try:
        found = _Simplex(problem).run()
    except np.linalg.LinAlgError:  # a basis that is singular as far as rounding goes
        return None
    return found if found is not None and _proven(problem, found) else None


def _proven(problem: Instance, found: Relaxation) -> bool:
    """Say whether shares and prices are feasible and worth the same: then neither can be better."""
    each = np.bincount(problem.owner, found.shares, problem.jobs)
    used = problem.counts.T @ found.shares
    best = np.zeros(problem.jobs)
    np.maximum.at(best, problem.owner, problem.utility - problem.counts @ found.prices)
    value = float(problem.utility @ found.shares)
    bound = float(best.sum() + found.prices @ problem.capacity)
    return bool(
        (each <= 1 + _NOISE).all()
        and (used <= problem.capacity + _NOISE).all()
        and bound - value <= _WORTH_THE_SAME * max(bound, _NOISE)
    )


class _Simplex:
    """Columns are configurations, then for each job nothing at all; slacks are below zero.

    `basic` names the G columns of the working basis, `amount` how much there is of each: the share
    of a configuration, or devices that stay free of a type.
    """

    def __init__(self, problem: Instance) -> None:
        jobs, types = problem.jobs, len(problem.capacity)
        self._size = len(problem.utility)
        self._scale = float(np.abs(problem.utility).max(initial=0.0)) or 1.0
        self._worth = np.append(problem.utility / self._scale, np.zeros(jobs))
        self._need = np.concatenate([problem.counts.astype(np.float64), np.zeros((jobs, types))])
        self._owner = np.append(problem.owner, np.arange(jobs))
        self._key = np.arange(self._size, self._size + jobs)
        self._key_share = np.ones(jobs)
        self._basic = [-1 - g for g in range(types)]
        self._basis = np.eye(types)
        self._amount = problem.capacity.astype(np.float64)
        self._steps = 200 + 20 * jobs

    def run(self) -> Relaxation | None:
        for _ in range(self._steps):
            price = np.linalg.solve(self._basis.T, [self._gain(column) for column in self._basic])
            profit = self._worth - self._need @ price
            better = profit - profit[self._key][self._owner]
            column, slack = int(better.argmax()), int(price.argmin())
            if max(better[column], -price[slack]) <= _NOISE:
                return self._result(np.maximum(price, 0.0))
            self._enter(column if better[column] >= -price[slack] else -1 - slack)
        return None

    def _gain(self, column: int) -> float:
        """Return what a column is worth beyond its job's key."""
        if column < 0:
            return 0.0
        return float(self._worth[column] - self._worth[self._key[self._owner[column]]])

    def _direction(self, column: int) -> Array:
        """Return the devices that a column takes beyond its job's key."""
        if column < 0:
            unit = np.zeros(len(self._basic))
            unit[-1 - column] = 1.0
            return unit
        further: Array = self._need[column] - self._need[self._key[self._owner[column]]]
        return further

    def _enter(self, column: int) -> None:
        """Let there be as much of a column as can be, and let what is used up go."""
        direction = self._direction(column)
        falls = np.linalg.solve(self._basis, direction)
        slots, most = -1, np.inf
        for slot, fall in enumerate(falls.tolist()):
            if fall > _NOISE and self._amount[slot] / fall < most:
                slots, most = slot, self._amount[slot] / fall
        by_key: dict[int, float] = {} if column < 0 else {int(self._owner[column]): 1.0}
        for other, fall in zip(self._basic, falls.tolist(), strict=True):
            if other >= 0:
                job = int(self._owner[other])
                by_key[job] = by_key.get(job, 0.0) - fall
        leaving = -1
        for job, fall in by_key.items():
            if fall > _NOISE and self._key_share[job] / fall < most:
                leaving, most = job, self._key_share[job] / fall
        self._amount = np.maximum(self._amount - most * falls, 0.0)
        for job, fall in by_key.items():
            self._key_share[job] = max(self._key_share[job] - most * fall, 0.0)
        if leaving < 0:
            self._replace(slots, column, most, direction)
        elif column >= 0 and self._owner[column] == leaving:
            self._new_key(leaving, column, most)
        else:  # one of the job's others takes the key's place, and the new column its place
            slot = next(
                slot
                for slot, other in enumerate(self._basic)
                if other >= 0 and self._owner[other] == leaving and falls[slot] < -_NOISE
            )
            heir, share = self._basic[slot], float(self._amount[slot])
            self._replace(slot, column, most, direction)
            self._new_key(leaving, heir, share)

    def _replace(self, slot: int, column: int, amount: float, direction: Array) -> None:
        self._basic[slot], self._amount[slot] = column, amount
        self._basis[:, slot] = direction

    def _new_key(self, job: int, column: int, share: float) -> None:
        self._key[job], self._key_share[job] = column, share
        for slot, other in enumerate(self._basic):
            if other >= 0 and self._owner[other] == job:
                self._basis[:, slot] = self._direction(other)

    def _result(self, price: Array) -> Relaxation:
        shares = np.zeros(len(self._worth))
        shares[self._key] = self._key_share
        for column, amount in zip(self._basic, self._amount.tolist(), strict=True):
            if column >= 0:
                shares[column] = amount
        return Relaxation(shares[: self._size], price * self._scale)
