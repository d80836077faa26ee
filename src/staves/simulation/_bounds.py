"""What a job would take without the others: alone on everything, or alone on its fair share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from staves.scheduling import Counts, JobView
from staves.simulation._results import JobResult
from staves.simulation._work import Submission, Work


class Alone:
    """Times of jobs that nobody disturbs, on devices of one type.

    Args:
        capacity: devices of each type.
    """

    def __init__(self, capacity: Counts) -> None:
        self._capacity = capacity
        self._known: dict[tuple[object, ...], float] = {}

    def seconds(self, job: Submission) -> float:
        """Return the job's time alone on the cluster, start included: a bound for one-type jobs."""
        return self._seconds(job, self._capacity, 1.0)

    def fair_seconds(self, job: Submission, contention: float) -> float:
        """Return its time alone on a 1/N share of every type, N = `contention` at least 1.

        A job that needs more devices than that share holds them for a part of the time.
        """
        least = max(1, job.view.minimum)
        shares = [count / max(1.0, contention) for count in self._capacity]
        counts = tuple(
            min(count, max(least, math.floor(share)))
            for count, share in zip(self._capacity, shares, strict=True)
        )
        room = max((share for share in shares), default=0.0)
        return self._seconds(job, counts, max(1.0, least / max(room, 1e-9)) if least > 1 else 1.0)

    def _seconds(self, job: Submission, capacity: Counts, stretch: float) -> float:
        view = job.view
        # Jobs of one application and batch share their rates.
        key = (job.work.rates(0), capacity, view.minimum, view.maximum, job.work.marks[-1])
        if key not in self._known:
            self._known[key] = _phases(job.work, _of_one_type(view, capacity))
        return view.start_pause + stretch * self._known[key]


def _of_one_type(job: JobView, capacity: Counts) -> NDArray[np.int64]:
    rows = [
        [n if h == g else 0 for h in range(len(capacity))]
        for g, most in enumerate(capacity)
        if job.types is None or g in job.types
        for n in range(max(1, job.minimum), min(most, job.maximum) + 1)
    ]
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(capacity))


def _phases(work: Work, table: NDArray[np.int64]) -> float:
    if not len(table):
        return math.inf
    total, before = 0.0, 0.0
    for phase, mark in enumerate(work.marks):
        best = float(work.rates(phase)(table).max())
        total += (mark - before) / best if best > 0 else math.inf
        before = mark
    return total


def contention(jobs: Sequence[JobResult]) -> list[float]:
    """Return for each finished job the mean number of active jobs while it was active, itself too.

    nan for one that did not finish.
    """
    starts = np.sort([job.submitted for job in jobs])  # one that does not finish stays active
    ends = np.sort([job.finished for job in jobs if job.finished is not None])
    times = np.union1d(starts, ends)
    active = np.searchsorted(starts, times, "right") - np.searchsorted(ends, times, "right")
    area = np.append(0.0, np.cumsum(active[:-1] * np.diff(times)))
    result = []
    for job in jobs:
        if job.finished is None or job.finished <= job.submitted:
            result.append(math.nan)
            continue
        since, until = np.interp([job.submitted, job.finished], times, area)
        result.append(float(until - since) / (job.finished - job.submitted))
    return result
