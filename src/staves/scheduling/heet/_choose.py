"""The decision: one configuration or none for each job, so that the sum of utilities is largest.

A multiple-choice knapsack over the capacities of the types, solved exactly: the linear relaxation
first, and where that splits jobs, a search at its prices; the integer programme is left for what
the search does not end in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from staves.errors import StavesError
from staves.scheduling._configurations import Table
from staves.scheduling._view import Counts
from staves.scheduling.heet._relaxation import Instance, relax
from staves.scheduling.heet._search import search

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

_GAP = 1e-9
"""Relative gap at which a solution counts as optimal."""

_MANY, _GAP_OF_MANY = 5000, 1e-4
"""With more columns than this the last digits cost minutes, and move no job that anyone would miss;
the decision's bound tells what they may have cost."""


@dataclass(frozen=True, eq=False)
class Choices:
    """The configurations of one job: counts (C, G), utilities (C,), and whether it may have none.

    A job that `must` have something gets nothing only where all such jobs cannot.
    """

    table: Table
    utility: Array
    must: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """For each job the row of its table, or None; the sum; and that of the linear relaxation."""

    rows: tuple[int | None, ...]
    value: float
    bound: float


def choose(jobs: Sequence[Choices], capacity: Counts, *, gap: float | None = None) -> Chosen:
    """Return the best choice: exactly, up to `_MANY` configurations in all.

    Args:
        jobs: J jobs; every row of theirs fits in `capacity` on its own.
        capacity: devices of each type, (G,).
        gap: relative gap at which a solution is good enough; None for that exactness.
    """
    problem = _Problem(jobs, capacity, gap)
    if problem.size == 0:
        return Chosen((None,) * len(jobs), 0.0, 0.0)
    must = np.array([job.must and len(job.utility) > 0 for job in jobs])
    if (found := problem.best_of_each()) is not None:
        return problem.chosen(found, -math.inf)
    if not must.any() and (small := problem.searched()) is not None:
        return small
    relaxed = problem.solve(problem.utility, must, whole=False)
    if relaxed is None:  # devices have gone: as many as can keep something
        must = problem.together(must)
        relaxed = problem.solve(problem.utility, must, whole=False)
    assert relaxed is not None
    bound = float(problem.utility @ relaxed)
    solution = relaxed
    if not _whole(relaxed):
        whole = problem.solve(problem.utility, must)
        if whole is None:  # only where the jobs that must have something fit in shares alone
            must = problem.together(must)
            whole = problem.solve(problem.utility, must)
        assert whole is not None
        solution = whole
    return problem.chosen(solution > 0.5, bound)


def _whole(shares: Array) -> bool:
    return bool(np.abs(shares - shares.round()).max() <= 1e-9)


class _Problem:
    """One column for each configuration of each job."""

    def __init__(self, jobs: Sequence[Choices], capacity: Counts, gap: float | None = None) -> None:
        sizes = np.array([len(job.utility) for job in jobs], dtype=np.int64)
        self.size = int(sizes.sum())
        self._gap = (_GAP if self.size <= _MANY else _GAP_OF_MANY) if gap is None else gap
        self.owner = np.repeat(np.arange(len(jobs)), sizes)
        self.first = np.cumsum(sizes) - sizes
        self.utility = np.concatenate([np.zeros(0), *(job.utility for job in jobs)])
        self._capacity = np.array(capacity, dtype=np.float64)
        self._jobs = len(jobs)
        self._counts = np.zeros((0, len(capacity)), dtype=np.int64)
        if self.size:
            self._counts = np.concatenate([job.table for job in jobs])

    @cached_property
    def _matrix(self) -> csr_array:
        """One row for each job, and one for each type."""
        from scipy.sparse import csr_array

        row, column = np.nonzero(self._counts.T)
        return csr_array(
            (
                np.concatenate([np.ones(self.size), self._counts.T[row, column]]),
                (
                    np.concatenate([self.owner, row + self._jobs]),
                    np.concatenate([np.arange(self.size), column]),
                ),
            ),
            shape=(self._jobs + len(self._capacity), self.size),
        )

    def best_of_each(self) -> NDArray[np.bool_] | None:
        """Return each job's best configuration where all of them fit together; else None.

        None as well where a job would rather have nothing.
        """
        order = np.lexsort((np.arange(self.size), -self.utility, self.owner))
        best = order[np.append(True, np.diff(self.owner) != 0)]
        if (self.utility[best] <= 0).any():
            return None
        if (self._counts[best].sum(axis=0) > self._capacity).any():
            return None
        taken = np.zeros(self.size, dtype=bool)
        taken[best] = True
        return taken

    def chosen(self, taken: NDArray[np.bool_], bound: float) -> Chosen:
        """Return the answer that consists of these columns."""
        rows: list[int | None] = [None] * self._jobs
        for index in np.flatnonzero(taken).tolist():
            rows[int(self.owner[index])] = int(index - self.first[self.owner[index]])
        value = float(self.utility[taken].sum())
        return Chosen(tuple(rows), value, max(bound, value))

    def solve(self, value: Array, must: NDArray[np.bool_], *, whole: bool = True) -> Array | None:
        """Return the columns' shares, (C,); None where the jobs that must cannot all have some."""
        # Loads for longer than most simulations decide.
        from scipy.optimize import Bounds, LinearConstraint, milp

        scale = float(value.max(initial=0.0)) or 1.0  # HiGHS's tolerances are absolute
        result = milp(
            -value / scale,
            integrality=np.full(self.size, int(whole)),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(
                self._matrix,
                np.concatenate([must.astype(np.float64), np.full(len(self._capacity), -np.inf)]),
                np.concatenate([np.ones(self._jobs), self._capacity]),
            ),
            options={"mip_rel_gap": self._gap},
        )
        if result.status == 2:
            return None
        if result.x is None:
            raise StavesError(f"the scheduler's programme was not solved: {result.message}")
        solution: Array = np.asarray(result.x, dtype=np.float64)
        return solution

    def searched(self) -> Chosen | None:
        """Return a best choice where no job must have something; None where that takes too long."""
        if self.size > _MANY:
            return None
        capacity = self._capacity.astype(np.int64)
        instance = Instance(self.utility, self._counts, self.owner, self._jobs, capacity)
        relaxed = relax(instance)
        if relaxed is None:
            return None
        taken = relaxed.shares > 0.5
        if not _whole(relaxed.shares):
            found = search(instance, relaxed.prices)
            if found is None:
                return None
            taken = found
        return self.chosen(taken, float(self.utility @ relaxed.shares))

    def together(self, must: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the jobs of a largest set, out of those that `must`, that fit whole."""
        most = self.solve(must[self.owner].astype(np.float64), np.zeros_like(must))
        assert most is not None, "nothing for anybody is always possible"
        kept: NDArray[np.bool_] = must & (
            np.bincount(self.owner, weights=most, minlength=self._jobs) > 0.5
        )
        return kept
