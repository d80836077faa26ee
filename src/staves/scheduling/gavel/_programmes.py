"""Gavel's linear programmes: what share of time each job should have on each type.

After Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
Workloads" (OSDI '20, section 4). An allocation x, (J, G), is the share of time that each job spends
on each type; its throughput under x is the sum over types of rate times x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._programme import Optimum, matrix, minimise
from staves.scheduling.gavel._centre import central_fractions

Array = NDArray[np.float64]

_TRIES, _NEAR = 100, 5e-4  # relative
_LEAST_LEFT = 1e-9  # of a job's age
_LOWEST = 1e-6  # share of the most that anyone needs, ten times what a solver takes for none
_HALVINGS = 40
_SLACK = 1e-7  # relative; of what the first programme reached, left to the second


@dataclass(frozen=True, eq=False)
class Problem:
    """What is allocated.

    Args:
        rates: steps a second of each job, with all that it asks for, on each type, (J, G); 0 where
            it cannot run.
        need: devices of each job, (J,).
        capacity: devices of each type, (G,).
        weights: of the jobs, (J,).
        remaining, done: steps of each job, (J,).
        age: seconds since each was submitted, (J,).
    """

    rates: Array
    need: Array
    capacity: Array
    weights: Array
    remaining: Array
    done: Array
    age: Array

    @property
    def equal_rates(self) -> Array:
        """Throughput with time on the types in proportion to their devices, (J,); section 4.1."""
        can: Array = np.where(self.rates > 0, self.capacity, 0.0)
        rates: Array = (self.rates * can).sum(axis=1) / can.sum(axis=1)
        return rates

    @property
    def isolated_rates(self) -> Array:
        """Throughput with an equal share of every type's devices for each job, (J,)."""
        share = self.capacity / (len(self.need) * self.need[:, None])
        share = np.where(self.rates > 0, share, 0.0)
        rates: Array = (self.rates * share / np.maximum(1.0, share.sum(axis=1))[:, None]).sum(
            axis=1
        )
        return rates


def max_sum(problem: Problem) -> Array:
    """Return the x of the largest sum of throughputs (section 4.2), the middle of all such."""
    return central_fractions(problem.rates * problem.weights[:, None], *_sizes(problem))


def max_min(problem: Problem) -> Array:
    """Return the x of the largest least throughput (section 4.1).

    A job's throughput counts over its weight, and over that with equal time on all types; times its
    devices, so that jobs of many are not worth less than several of one.
    """
    return _Programme(problem, problem.weights * problem.equal_rates / problem.need).best()


def makespan(problem: Problem) -> Array:
    """Return the x under which all would be done soonest (section 4.2)."""
    return _Programme(problem, problem.remaining).best()


def finish_time_fairness(problem: Problem) -> Array:
    """Return the x of the smallest largest rho (section 4.2, after Themis, NSDI '20).

    rho of a job is the time from its submission to its end under x, over that which it would have
    taken with 1 / J of each type. Of some rho it is known by a programme of least throughputs
    whether an x reaches it. Where none does, that programme's prices tell a larger rho which none
    reaches either, and that is the next to be tried: Newton's method, from below. It ends where the
    best x so far is within 5e-4.
    """
    alone = (problem.done + problem.remaining) / problem.isolated_rates
    best = problem.rates.max(axis=1)

    def needed(rho: float) -> Array:
        """Return the throughput that gives each job this rho, (J,)."""
        # The slowest's rest is small beside its age, as numbers are: it could come out as none.
        left = np.maximum(rho * alone - problem.age, _LEAST_LEFT * (1 + problem.age))
        return problem.remaining / left

    # Nobody is fairer off than at the best rate there is: often that is reached, or nearly.
    rho = float(((problem.age + problem.remaining / best) / alone).max())
    isolated = problem.age + problem.remaining / problem.isolated_rates
    reached, chosen = float((isolated / alone).max()), None
    for _ in range(_TRIES):
        if reached <= rho * (1 + _NEAR):
            break
        programme = _Programme(problem, needed(rho))
        x, least, price = programme.priced()
        rate = (problem.rates * x).sum(axis=1)
        found = float(((problem.age + problem.remaining / rate) / alone).max())
        if found <= reached:
            reached, chosen = found, (programme, least)
        higher = _affordable(needed, price, rho, reached)
        if higher <= rho:
            break  # as far as numbers go
        rho = higher
    if chosen is None:
        return _Programme(problem, needed(reached)).best()
    programme, least = chosen
    return programme.best(least)


def _affordable(needed: Callable[[float], Array], price: Array, low: float, high: float) -> float:
    """Return a rho no larger than the smallest with which what is needed costs at most 1.

    Args:
        needed: throughputs, (J,), that fall as rho grows.
        price: of a unit of each, (J,).
        low: a rho with which they cost more than 1; else it is returned.
        high: a rho with which they do not.
    """
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if price @ needed(middle) > 1:
            low = middle
        else:
            high = middle
    return low


def _alike(rows: Array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return of equal rows (J, N) the first, (K,), the number of each row's kind, (J,), and how
    many rows each kind has, (K,); kinds in the order of their first rows."""
    _, first, kind, count = np.unique(
        rows, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[kind.ravel()], count[order]


def _sizes(problem: Problem) -> tuple[Array, Array]:
    return problem.need, problem.capacity


class _Programme:
    """Throughput of at least z scale for every job, with z as large as it can be.

    Jobs that are alike have equal shares, and are one job of as many times the devices here. That
    takes nothing from z, and of the corners that a simplex method would name most run some of these
    jobs for good and others not at all.

    Args:
        problem: jobs and devices.
        scale: steps a second, (J,), above 0.
    """

    def __init__(self, problem: Problem, scale: Array) -> None:
        kept, self._kind, count = _alike(np.column_stack([problem.rates, problem.need, scale]))
        rates, scale, types = problem.rates[kept], scale[kept], len(problem.capacity)
        kinds = len(kept)
        worth = rates / scale[:, None]
        self._place = of_kind, of_type = np.nonzero(worth > 0)
        self._worth = (count[:, None] * worth)[self._place] / worth.max()
        # Each row by its own best rate, and z by the most that anyone needs of its best: jobs with
        # all time before them would else have entries beyond what a solver can tell.
        best = rates.max(axis=1)
        part = (rates / best[:, None])[self._place]
        lowest = scale / best
        lowest = np.maximum(lowest / lowest.max(), _LOWEST)
        self._unit = count * best
        one, each = np.ones(len(of_kind)), np.arange(kinds)
        shares = (
            np.column_stack([of_kind, kinds + of_type, kinds + types + of_kind]),
            np.column_stack([one, (count * problem.need[kept])[of_kind], -part]),
        )
        self._matrix = matrix([shares, ((kinds + types + each)[None], lowest[None])])
        self._shape = kinds, types
        self._most = np.append(one, np.inf)
        self._limits = np.concatenate([np.ones(kinds), problem.capacity, np.zeros(kinds)])
        self._only_least = np.append(0 * one, 1.0)

    def priced(self) -> tuple[Array, float, Array]:
        """Return an x of the largest z, that z in the programme's own unit, and prices, (J,).

        Throughputs that some x has, each times its price, come to 1 at most.
        """
        found = self._solved(self._only_least, 0 * self._only_least)
        least = float(found.x[-1])
        price = np.maximum(-found.prices[-self._shape[0] :], 0.0)
        return self._filled(found.x), least, (price / self._unit / least)[self._kind]

    def best(self, least: float | None = None) -> Array:
        """Return of all x of the largest z the one of the largest sum of throughput over scale:
        what the slowest cannot use is not left idle.

        Args:
            least: the largest z, where it is known.
        """
        if least is None:
            least = float(self._solved(self._only_least, 0 * self._only_least).x[-1])
        low = self._only_least * least * (1 - _SLACK)
        return self._filled(self._solved(np.append(self._worth, 0.0), low).x)

    def _filled(self, solution: Array) -> Array:
        """Return the x, (J, G), of a solution.

        The solver keeps to its limits within 1e-7: shares of one job are brought down to 1 in all.
        """
        x = np.zeros(self._shape)
        x[self._place] = np.maximum(solution[:-1], 0.0)
        filled: Array = (x / np.maximum(x.sum(axis=1, keepdims=True), 1.0))[self._kind]
        return filled

    def _solved(self, gain: Array, low: Array) -> Optimum:
        endless = np.full(len(self._limits), -np.inf)
        found = minimise(-gain, self._matrix, (low, self._most), (endless, self._limits))
        assert found is not None, "nothing for anybody is always possible"
        return found
