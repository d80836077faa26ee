"""Greedy growth: device after device to whom the policy says."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._ladders import Array, Ladders
from staves.scheduling._view import JobView


class Growing:
    """Jobs that grow on one type each, and the next step of each of them.

    A job starts with the fewest devices that run it, on the type where it would end soonest, the
    pause for a change counted. From there a step goes to the next size that it may have; where that
    does not raise its rate there is none, even if a larger size would: as the papers have it.

    Args:
        ladders: the jobs, J of them.
        free: devices of each type that may be given out.
    """

    def __init__(self, ladders: Ladders, free: Sequence[int]) -> None:
        jobs = len(ladders.jobs)
        self.ladders = ladders
        self.work = np.array([known_work(job) for job in ladders.jobs], dtype=np.float64)
        """What is left of each job, reference samples, (J,)."""
        self.kind = np.full(jobs, -1)
        """The type of each job, (J,); -1 for none."""
        self.size = np.zeros(jobs, dtype=np.int64)
        """Its devices, (J,)."""
        self.rate = np.zeros(jobs)
        """Its rate on them, (J,)."""
        self.next_size = np.zeros(jobs, dtype=np.int64)
        """Its devices after its next step, (J,)."""
        self.next_rate = np.zeros(jobs)
        """Its rate after it, (J,)."""
        self.open = np.zeros(jobs, dtype=bool)
        """Whether there is a next step, (J,)."""
        self._next_kind = np.full(jobs, -1)
        self._free = np.array(free, dtype=np.int64)
        rates = ladders.rates
        self._least = np.where((rates > 0).any(axis=2), (rates > 0).argmax(axis=2), rates.shape[2])
        self._seconds = self._start_seconds()
        self._look_at_waiting(np.arange(jobs))

    @property
    def free(self) -> NDArray[np.int64]:
        """Devices of each type that nobody has, (G,)."""
        return self._free

    @property
    def started(self) -> NDArray[np.bool_]:
        """Whether each job has devices, (J,)."""
        has: NDArray[np.bool_] = self.kind >= 0
        return has

    @property
    def chosen(self) -> dict[int, tuple[int, int]]:
        """What each job has, by its number: (type, devices)."""
        return {
            j: (int(self.kind[j]), int(self.size[j])) for j in np.flatnonzero(self.started).tolist()
        }

    def step(self, j: int) -> None:
        """Let the job with this number, whose step is open, take it."""
        self.hold(j, int(self._next_kind[j]), int(self.next_size[j]))

    def hold(self, j: int, g: int, size: int) -> None:
        """Let a job have so many devices of a type, which are free but for what it has of it."""
        self._free[g] -= size - self.size[j]
        self.kind[j], self.size[j], self.rate[j] = g, size, self.ladders.rates[j, g, size]
        self._look(j)
        short = self.open & (self._next_kind == g) & (self.next_size - self.size > self._free[g])
        others = short.nonzero()[0]
        if len(others):
            waits = self.kind[others] < 0
            self._look_at_waiting(others[waits])
            for other in others[~waits].tolist():
                self._look(other)

    def least(self, j: int, g: int) -> int | None:
        """Return the fewest devices of type g that run a job; None where none do."""
        return int(self._least[j, g]) if self._least[j, g] < self.ladders.rates.shape[2] else None

    def start(self, j: int) -> bool:
        """Let a job that has nothing start; say whether it could."""
        could = bool(self.open[j])
        if could:
            self.step(j)
        return could

    def _start_seconds(self) -> Array:
        """Return how soon each job would end on the fewest devices of each type, (J, G)."""
        top = self.ladders.rates.shape[2] - 1
        least = np.minimum(self._least, top)
        rate = np.take_along_axis(self.ladders.rates, least[:, :, None], axis=2)[:, :, 0]
        jobs = self.ladders.jobs
        with np.errstate(divide="ignore", invalid="ignore"):
            seconds = np.where(rate > 0, self.work[:, None] / rate, np.inf)
        for j, job in enumerate(jobs):
            if job.current is not None:
                seconds[j] += np.where(np.array(job.current) > 0, 0.0, job.resize_pause)
        timed: Array = seconds
        return timed

    def _look_at_waiting(self, at: NDArray[np.int64]) -> None:
        """Find the first step of jobs that have nothing, by their numbers, in what is free."""
        if not (len(at) and len(self._free)):
            return
        seconds = np.where(self._least[at] <= self._free, self._seconds[at], np.inf)
        kind = seconds.argmin(axis=1)
        opens = np.isfinite(seconds[np.arange(len(at)), kind])
        self.open[at] = opens
        at, kind = at[opens], kind[opens]
        size = self._least[at, kind]
        self._next_kind[at], self.next_size[at] = kind, size
        self.next_rate[at] = self.ladders.rates[at, kind, size]

    def _look(self, j: int) -> None:
        """Find the next step of a job that has devices in what is free."""
        g, size = int(self.kind[j]), int(self.size[j])
        self._next_kind[j] = g
        larger = self.ladders.rates[j, g, size + 1 : size + int(self._free[g]) + 1].nonzero()[0]
        self.next_size[j] = size + 1 + int(larger[0]) if len(larger) else size
        self.next_rate[j] = self.ladders.rates[j, g, self.next_size[j]]
        self.open[j] = self.next_rate[j] > self.rate[j]


def known_work(job: JobView) -> float:
    """Return what is left, in reference samples as the present speed counts them.

    By its steps, where it has a fixed batch; of unknown work, as much as it has done.
    """
    left = job.remaining if math.isfinite(job.remaining) else job.progress
    if job.step_work and math.isfinite(job.steps_left):
        left = job.steps_left * job.step_work
    return max(left, 1e-9)
