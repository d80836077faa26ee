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
    return _largest_least(problem, problem.weights * problem.equal_rates / problem.need)[0]


def makespan(problem: Problem) -> Array:
    """Return the x under which all would be done soonest (section 4.2)."""
    return _largest_least(problem, problem.remaining)[0]


def finish_time_fairness(problem: Problem) -> Array:
    """Return the x of the smallest largest rho (section 4.2, after Themis, NSDI '20).

    rho of a job is the time from its submission to its end under x, over that which it would have
    taken with 1 / J of each type. By halving: an x of some rho is a programme of least throughputs.
    """
    alone = (problem.done + problem.remaining) / problem.isolated_rates
    low, high = float((problem.age / alone).max()), 1.0

    def attempt(rho: float) -> Array | None:
        left = rho * alone - problem.age
        if (left <= 0).any():
            return None
        x, least = _largest_least(problem, problem.remaining / left)
        return x if least >= 1 else None

    while (best := attempt(high)) is None:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if high - low <= 1e-6 * high:
            break
        found = attempt(middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
    return best


def _sizes(problem: Problem) -> tuple[Array, Array]:
    return problem.need, problem.capacity


def _largest_least(problem: Problem, scale: Array) -> tuple[Array, float]:
    """Return the x of the largest z with throughput >= z scale for every job, and that z.

    Of all such the one of the largest sum of throughput over scale: what the slowest cannot use is
    not left idle.

    Args:
        problem: jobs and devices.
        scale: steps a second, (J,), above 0.
    """
    # Loads for longer than most simulations decide.
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    worth = problem.rates / scale[:, None]
    worth = worth / worth.max()
    jobs, types = worth.shape
    job, kind = (axis.ravel() for axis in np.indices(worth.shape))
    column = np.arange(jobs * types)
    least = np.concatenate([np.zeros(jobs * types), [1.0]])
    matrix = csr_array(
        (
            np.concatenate(
                [np.ones(jobs * types), problem.need[job], -worth.ravel(), np.ones(jobs)]
            ),
            (
                np.concatenate(
                    [job, jobs + kind, jobs + types + job, jobs + types + np.arange(jobs)]
                ),
                np.concatenate([column, column, column, np.full(jobs, jobs * types)]),
            ),
        ),
        shape=(2 * jobs + types, jobs * types + 1),
    )
    limits = np.concatenate([np.ones(jobs), problem.capacity, np.zeros(jobs)])
    most = np.append(np.where(worth.ravel() > 0, 1.0, 0.0), np.inf)
    none = np.zeros(len(most))

    def solved(gain: Array, low: Array) -> Array:
        result = milp(
            -gain,
            bounds=Bounds(low, most),
            constraints=LinearConstraint(matrix, np.full(len(limits), -np.inf), limits),
        )
        if result.x is None:
            raise StavesError(f"the scheduler's programme was not solved: {result.message}")
        return np.asarray(result.x, dtype=np.float64)

    z = float(solved(least, none)[-1])
    x = solved(np.append(worth.ravel(), 0.0), least * z * (1 - _SLACK))[:-1]
    unscaled = z * float((problem.rates / scale[:, None]).max())
    return x.reshape(jobs, types), unscaled
