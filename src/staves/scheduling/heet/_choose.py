"""The decision: one configuration or none for each job, so that the sum of utilities is largest.

A multiple-choice knapsack over the capacities of the types, solved exactly: the linear relaxation
first, and where that splits jobs, a search at its prices; the integer programme is left for what
the search does not end in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import Table, as_table
from staves.scheduling._programme import matrix, minimise
from staves.scheduling._view import Counts
from staves.scheduling.heet._relaxation import Instance, relax, runs
from staves.scheduling.heet._search import search

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Columns = NDArray[np.int64]

_GAP = 1e-9
"""Relative gap at which a solution counts as optimal."""

MANY, _GAP_OF_MANY = 5000, 1e-4
"""With more columns than this the last digits cost minutes, and move no job that anyone would miss;
the decision's bound tells what they may have cost."""


@dataclass(frozen=True, eq=False)
class Choices:
    """The configurations of one job: counts (C, G), utilities (C,), and whether it may have none.

    A job that `must` have something gets nothing only where all such jobs cannot. What is best
    does not depend on what it has now, `current`; how soon it is found does.
    """

    table: Table
    utility: Array
    must: bool = False
    current: Counts | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """For each job the row of its table, or None; the sum; and that of the linear relaxation."""

    rows: tuple[int | None, ...]
    value: float
    bound: float


@dataclass(frozen=True, eq=False)
class Solution:
    """A choice.

    Args:
        columns: what is chosen.
        value: the sum of their utilities.
        bound: what that sum can be at most.
        prices: of one device of each type, (G,), where they were found.
    """

    columns: Columns
    value: float
    bound: float
    prices: Array | None = None


def choose(jobs: Sequence[Choices], capacity: Counts, *, gap: float | None = None) -> Chosen:
    """Return the best choice: exactly, up to `MANY` configurations in all.

    Args:
        jobs: J jobs; every row of theirs fits in `capacity` on its own.
        capacity: devices of each type, (G,).
        gap: relative gap at which a solution is good enough; None for that exactness.
    """
    sizes = np.array([len(job.utility) for job in jobs], dtype=np.int64)
    nothing = np.zeros((0, len(capacity)), dtype=np.int64)
    counts = np.concatenate([nothing, *(job.table for job in jobs)])
    owner = np.repeat(np.arange(len(jobs)), sizes)
    held = as_table([job.current or (-1,) * len(capacity) for job in jobs], len(capacity))
    mine = np.flatnonzero((counts == held[owner]).all(axis=1))
    problem = Instance(
        np.concatenate([np.zeros(0), *(job.utility for job in jobs)]),
        counts,
        owner,
        len(jobs),
        np.array(capacity, dtype=np.int64),
        mine[runs(owner[mine])[0]],
    )
    must = np.array([job.must and len(job.utility) > 0 for job in jobs], dtype=bool)
    found = solve(problem, must, gap=gap)
    first = np.cumsum(sizes) - sizes
    rows: list[int | None] = [None] * len(jobs)
    for column in found.columns.tolist():
        job = int(problem.owner[column])
        rows[job] = column - int(first[job])
    return Chosen(tuple(rows), found.value, found.bound)


def solve(problem: Instance, must: Mask, *, gap: float | None = None) -> Solution:
    """Return the best choice, as `choose` does.

    Args:
        problem: the columns of all jobs.
        must: of each job, whether it must have something, (J,); it has a column then.
        gap: as of `choose`.
    """
    if (easy := at_once(problem, must)) is not None:
        return easy
    programme = _Programme(problem, gap)
    relaxed = programme.solve(problem.utility, must, whole=False)
    if relaxed is None:  # devices have gone: as many as can keep something
        must = programme.together(must)
        relaxed = programme.solve(problem.utility, must, whole=False)
    assert relaxed is not None
    bound = float(problem.utility @ relaxed)
    solution = relaxed
    if not _whole(relaxed):
        whole = programme.solve(problem.utility, must)
        if whole is None:  # only where the jobs that must have something fit in shares alone
            must = programme.together(must)
            whole = programme.solve(problem.utility, must)
        assert whole is not None
        solution = whole
    return _solution(problem, np.flatnonzero(solution > 0.5), bound)


def at_once(problem: Instance, must: Mask) -> Solution | None:
    """Return a best choice where it is found without an integer programme; else None.

    That is where everybody can have what is best for them, and, up to `MANY` columns, where the
    search ends.
    """
    free = np.zeros(len(problem.capacity))
    if not len(problem.utility):
        return Solution(np.zeros(0, dtype=np.int64), 0.0, 0.0, free)
    best = problem.best(problem.utility)
    if len(best) == len(problem.runs[0]) and (problem.used(best) <= problem.capacity).all():
        return _solution(problem, best, -math.inf, free)
    if len(problem.utility) > MANY:
        return None
    relaxed = relax(problem, must)
    if relaxed is None:
        return None
    taken: Mask | None = relaxed.shares > 0.5
    if not _whole(relaxed.shares):
        taken = search(problem, relaxed.prices, must)
    if taken is None:
        return None
    bound = float(problem.utility @ relaxed.shares)
    return _solution(problem, np.flatnonzero(taken), bound, relaxed.prices)


def _solution(
    problem: Instance, columns: Columns, bound: float, prices: Array | None = None
) -> Solution:
    value = float(problem.utility[columns].sum())
    return Solution(columns, value, max(bound, value), prices)


def _whole(shares: Array) -> bool:
    return bool(np.abs(shares - shares.round()).max() <= 1e-9)


class _Programme:
    """The problem as a general solver takes it: one row for each job, and one for each type."""

    def __init__(self, problem: Instance, gap: float | None) -> None:
        self._problem, self._size = problem, len(problem.utility)
        self._gap = (_GAP if self._size <= MANY else _GAP_OF_MANY) if gap is None else gap
        rows = np.arange(problem.jobs, problem.jobs + len(problem.capacity))
        devices = np.broadcast_to(rows, problem.counts.shape)
        self._matrix = matrix(
            [
                (
                    np.column_stack([problem.owner, devices]),
                    np.column_stack([np.ones(self._size), problem.counts]),
                )
            ]
        )

    def solve(self, value: Array, must: Mask, *, whole: bool = True) -> Array | None:
        """Return the columns' shares, (C,); None where the jobs that must cannot all have some."""
        capacity = self._problem.capacity.astype(np.float64)
        scale = float(value.max(initial=0.0)) or 1.0  # HiGHS's tolerances are absolute
        found = minimise(
            -value / scale,
            self._matrix,
            (np.zeros(self._size), np.ones(self._size)),
            (
                np.concatenate([must.astype(np.float64), np.full(len(capacity), -np.inf)]),
                np.concatenate([np.ones(self._problem.jobs), capacity]),
            ),
            gap=self._gap if whole else None,
        )
        return None if found is None else found.x

    def together(self, must: Mask) -> Mask:
        """Return the jobs of a largest set, out of those that `must`, that fit whole."""
        problem = self._problem
        most = self.solve(must[problem.owner].astype(np.float64), np.zeros_like(must))
        assert most is not None, "nothing for anybody is always possible"
        kept: Mask = must & (np.bincount(problem.owner, weights=most, minlength=problem.jobs) > 0.5)
        return kept
