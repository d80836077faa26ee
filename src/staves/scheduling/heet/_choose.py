"""The decision: one configuration or none for each job, so that the sum of utilities is largest.

A multiple-choice knapsack over the capacities of the types. Here it is solved exactly; prices, a
start and moves could take this place for thousands of jobs, behind the same function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from staves.errors import StavesError
from staves.scheduling._configurations import Table
from staves.scheduling._view import Counts

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
    relaxed = problem.solve(problem.utility, must, whole=False)
    if relaxed is None:  # devices have gone: as many as can keep something
        must = problem.together(must)
        relaxed = problem.solve(problem.utility, must, whole=False)
    assert relaxed is not None
    bound = float(problem.utility @ relaxed)
    solution = relaxed
    if np.abs(relaxed - relaxed.round()).max() > 1e-9:
        whole = problem.solve(problem.utility, must)
        if whole is None:  # only where the jobs that must have something fit in shares alone
            must = problem.together(must)
            whole = problem.solve(problem.utility, must)
        assert whole is not None
        solution = whole
    taken = solution > 0.5
    rows: list[int | None] = [None] * len(jobs)
    for index in np.flatnonzero(taken).tolist():
        rows[int(problem.owner[index])] = int(index - problem.first[problem.owner[index]])
    value = float(problem.utility[taken].sum())
    return Chosen(tuple(rows), value, max(bound, value))


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
        if not self.size:
            return
        counts = np.concatenate([job.table for job in jobs])
        row, column = np.nonzero(counts.T)
        self._matrix = csr_array(
            (
                np.concatenate([np.ones(self.size), counts.T[row, column]]),
                (
                    np.concatenate([self.owner, row + len(jobs)]),
                    np.concatenate([np.arange(self.size), column]),
                ),
            ),
            shape=(len(jobs) + len(capacity), self.size),
        )

    def solve(self, value: Array, must: NDArray[np.bool_], *, whole: bool = True) -> Array | None:
        """Return the columns' shares, (C,); None where the jobs that must cannot all have some."""
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

    def together(self, must: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the jobs of a largest set, out of those that `must`, that fit whole."""
        most = self.solve(must[self.owner].astype(np.float64), np.zeros_like(must))
        assert most is not None, "nothing for anybody is always possible"
        kept: NDArray[np.bool_] = must & (
            np.bincount(self.owner, weights=most, minlength=self._jobs) > 0.5
        )
        return kept
