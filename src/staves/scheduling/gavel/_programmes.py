"""Gavel's linear programmes: what share of time each job should have on each type.

After Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
Workloads" (OSDI '20, section 4). An allocation x, (J, G), is the share of time that each job spends
on each type; its throughput under x is the sum over types of rate times x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.errors import StavesError
from staves.scheduling.gavel._centre import central_fractions

Array = NDArray[np.float64]

_TRIES, _NEAR = 100, 5e-4  # relative
_LEAST_LEFT = 1e-9  # of a job's age
_LOWEST = 1e-6  # share of the most that anyone needs, ten times what a solver takes for none
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
    whether an x reaches it; that programme's x has a rho of its own, and if that is smaller, it is
    the next to be tried (Dinkelbach's method for the largest of several ratios: Crouzeix, Ferland
    and Schaible, J. Optim. Theory Appl. 1985), until a step gains less than 5e-4.
    """
    alone = (problem.done + problem.remaining) / problem.isolated_rates

    def scale(rho: float) -> Array:
        # The slowest's rest is small beside its age, as numbers are: it could come out as none.
        left = np.maximum(rho * alone - problem.age, _LEAST_LEFT * (1 + problem.age))
        return problem.remaining / left

    def reached(x: Array) -> float:
        rate = (problem.rates * x).sum(axis=1)
        return float(((problem.age + problem.remaining / rate) / alone).max())

    # Nobody is fairer off than at the best rate there is: often that is reached, or nearly.
    best = problem.age + problem.remaining / problem.rates.max(axis=1)
    rho = float((best / alone).max()) * (1 + _NEAR)
    found = reached(_Programme(problem, scale(rho)).largest_least()[0])
    if found > rho:
        isolated = problem.age + problem.remaining / problem.isolated_rates
        rho = min(found, float((isolated / alone).max()))
        for _ in range(_TRIES):
            found = reached(_Programme(problem, scale(rho)).largest_least()[0])
            near, rho = found >= rho * (1 - _NEAR), min(rho, found)
            if near:
                break
    return _Programme(problem, scale(rho)).best()


def _sizes(problem: Problem) -> tuple[Array, Array]:
    return problem.need, problem.capacity


class _Programme:
    """Throughput of at least z scale for every job, with z as large as it can be.

    Args:
        problem: jobs and devices.
        scale: steps a second, (J,), above 0.
    """

    def __init__(self, problem: Problem, scale: Array) -> None:
        # Loads for longer than most simulations decide.
        from scipy.sparse import csr_array

        worth = problem.rates / scale[:, None]
        self._shape = jobs, types = worth.shape
        self._worth = (worth / worth.max()).ravel()
        # Each job's row by its own best rate, and z by the most that anyone needs of its best:
        # jobs with all time before them would else have entries beyond what a solver can tell.
        best = problem.rates.max(axis=1)
        part = (problem.rates / best[:, None]).ravel()
        lowest = scale / best
        lowest = np.maximum(lowest / lowest.max(), _LOWEST)
        job, kind = (axis.ravel() for axis in np.indices(self._shape))
        column = np.arange(jobs * types)
        self._matrix = csr_array(
            (
                np.concatenate([np.ones(jobs * types), problem.need[job], -part, lowest]),
                (
                    np.concatenate(
                        [job, jobs + kind, jobs + types + job, jobs + types + np.arange(jobs)]
                    ),
                    np.concatenate([column, column, column, np.full(jobs, jobs * types)]),
                ),
            ),
            shape=(2 * jobs + types, jobs * types + 1),
        )
        self._limits = np.concatenate([np.ones(jobs), problem.capacity, np.zeros(jobs)])

    def largest_least(self) -> tuple[Array, float]:
        """Return an x of the largest z, and that z in the programme's own unit."""
        only_least = np.append(np.zeros(len(self._worth)), 1.0)
        solution = self._solved(only_least, np.zeros(len(only_least)))
        return solution[:-1].reshape(self._shape), float(solution[-1])

    def best(self) -> Array:
        """Return of all x of the largest z the one of the largest sum of throughput over scale:
        what the slowest cannot use is not left idle."""
        _, least = self.largest_least()
        low = np.append(np.zeros(len(self._worth)), least * (1 - _SLACK))
        return self._solved(np.append(self._worth, 0.0), low)[:-1].reshape(self._shape)

    def _solved(self, gain: Array, low: Array) -> Array:
        from scipy.optimize import Bounds, LinearConstraint, milp

        most = np.append(np.where(self._worth > 0, 1.0, 0.0), np.inf)
        result = milp(
            -gain,
            bounds=Bounds(low, most),
            constraints=LinearConstraint(
                self._matrix, np.full(len(self._limits), -np.inf), self._limits
            ),
        )
        if result.x is None:
            raise StavesError(f"the scheduler's programme was not solved: {result.message}")
        return np.asarray(result.x, dtype=np.float64)
