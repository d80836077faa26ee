"""One job while it waits or runs: fluid progress between events."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from staves.hardware import Allocation
from staves.scheduling import Counts, JobView
from staves.simulation._results import JobResult, Pause, Span


class Active:
    """A job from its coming to its end.

    Args:
        job: as it was submitted; its rates are the truth.
        believes: whether policies are told how much work is left.
    """

    def __init__(self, job: JobView, *, work_known: bool) -> None:
        self.job = job
        self.version = 0
        """Counts the changes: an end that was foreseen before the last one does not happen."""
        self.allocation: Allocation | None = None
        self._counts: Counts | None = None
        self._work_known = work_known
        self._remaining = job.remaining
        self._attained = 0.0
        self._waiting = 0.0
        self._rate = 0.0
        self._at = self._since = self._paused_until = job.submitted
        self._spans: list[Span] = []
        self._pauses: list[Pause] = []

    def advance(self, now: float) -> None:
        """Let time pass until `now`."""
        passed = now - self._at
        if self.allocation is None:
            self._waiting += passed
        else:
            worked = max(0.0, now - max(self._at, self._paused_until))
            self._remaining = max(0.0, self._remaining - worked * self._rate)
            self._attained += len(self.allocation) * passed
            self._waiting = max(0.0, self._waiting - passed)
        self._at = now

    def view(self) -> JobView:
        """Return the job as a policy sees it."""
        return replace(
            self.job,
            remaining=self._remaining if self._work_known else math.inf,
            current=self._counts,
            attained=self._attained,
            waiting=self._waiting,
            pause_left=max(0.0, self._paused_until - self._at),
        )

    def give(self, allocation: Allocation | None, counts: Counts | None) -> None:
        """Give the job these devices from now on, or none, and let it pause for the change."""
        if allocation == self.allocation:
            return
        started = self.allocation is None
        self._close()
        self.version += 1
        self.allocation, self._counts, self._since = allocation, counts, self._at
        if counts is None:
            self._rate, self._paused_until = 0.0, self._at
            return
        self._rate = float(self.job.rates(np.array([counts], dtype=np.int64))[0])
        pause = self.job.start_pause if started else self.job.resize_pause
        until = max(self._paused_until, self._at + pause)  # a pause is not cut short by another
        self._paused_until = until
        if until > self._at:
            self._pauses.append(Pause(self._at, until - self._at))

    def end(self) -> float:
        """Return when the work will be done if nothing changes; inf where it will not."""
        if self._rate <= 0:
            return math.inf
        return max(self._at, self._paused_until) + self._remaining / self._rate

    def finish(self) -> None:
        """Take all devices back, the work being done."""
        self._remaining = 0.0
        self._close()
        self.version += 1
        self.allocation = None

    def result(self, finished: float | None) -> JobResult:
        """Return what happened; devices that the job still holds are counted until now."""
        self._close()
        return JobResult(
            self.job.id,
            self.job.submitted,
            self._spans[0].since if self._spans else None,
            finished,
            tuple(self._spans),
            tuple(self._pauses),
        )

    def _close(self) -> None:
        """End the span, and the pause that it cuts short."""
        if self.allocation is None:
            return
        if self._at > self._since:
            self._spans.append(Span(self._since, self._at, self.allocation))
        self._since = self._at
        if self._pauses and self._pauses[-1].since + self._pauses[-1].seconds > self._at:
            last = self._pauses.pop()
            if self._at > last.since:
                self._pauses.append(Pause(last.since, self._at - last.since))
