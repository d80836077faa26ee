"""One job while it waits or runs: fluid progress between events."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import fields
from typing import TYPE_CHECKING

from staves.hardware import Allocation
from staves.scheduling import Counts, JobView, doubt_of
from staves.simulation._results import JobResult, Pause, Span
from staves.simulation._work import Placement, Submission


class _Draft:
    """A `JobView` while it is filled in: the same slots, which may still be set.

    A view of every job is made at every decision. Filling a draft and then making it a view takes a
    third of what the constructor takes, which must go round its own check against changes.
    """

    __slots__ = tuple(each.name for each in fields(JobView))

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None: ...


class Active:
    """A job from its coming to its end.

    Args:
        submission: as it was submitted.
        work_known: whether policies are told how much work is left.
        checkpoint_seconds: seconds of training between two checkpoints.
    """

    def __init__(
        self, submission: Submission, *, work_known: bool, checkpoint_seconds: float = math.inf
    ) -> None:
        self.job, self._work = submission.view, submission.work
        self.version = 0
        """Counts the changes: an end that was foreseen before the last one does not happen."""
        self.allocation: Allocation | None = None
        self.failures = 0
        self._marks = self._work.marks
        self._placement: Placement | None = None
        self._counts: Counts | None = None
        self._work_known = work_known
        self._done = self._saved = self._lost = 0.0
        self._trained = 0.0  # seconds since the last checkpoint
        self._checkpoint_seconds = checkpoint_seconds
        self._phase = 0
        self._steps_after: list[float] = []  # the end of each phase, where the batch is fixed
        self._attained = self._waiting = 0.0
        self._held: dict[int, float] = defaultdict(float)
        self._used: tuple[int, ...] = ()  # types that it holds now
        self._rate, self._slowdown = 0.0, 1.0
        self._at = self._since = self._paused_until = self.job.submitted
        self._started: float | None = None
        self._restarts = 0
        self._tried = 0
        self._learned = False
        self._measured = True
        self._spans: list[Span] = []
        self._pauses: list[Pause] = []

    @property
    def counts(self) -> Counts | None:
        """Its devices of each type; None while it has none."""
        return self._counts

    def advance(self, now: float) -> None:
        """Let time pass until `now`: no later than `next_mark`."""
        passed = now - self._at
        if self.allocation is None:
            self._waiting += passed
        else:
            worked = max(0.0, now - max(self._at, self._paused_until))
            self._done = min(self._done + worked * self._rate, self._marks[self._phase])
            self._note_checkpoints(worked)
            if worked > 0:
                self._tried = max(self._tried, len(self.allocation))
                self._learned |= self._work.trained(self._phase)
            self._attained += len(self.allocation) * passed
            for g in self._used:
                self._held[g] += passed
            self._waiting = max(0.0, self._waiting - passed)
        self._at = now

    def _note_checkpoints(self, worked: float) -> None:
        if math.isinf(self._checkpoint_seconds):
            return
        self._trained += worked
        if self._trained >= self._checkpoint_seconds:
            self._trained %= self._checkpoint_seconds
            self._saved = max(self._saved, self._done - self._trained * self._rate)

    def view(self, types: int) -> JobView:
        """Return the job as a policy sees it that looks at so many types."""
        job, at, draft = self.job, self._at, _Draft()
        # As it was submitted.
        draft.id, draft.submitted, draft.name, draft.application = (
            job.id,
            job.submitted,
            job.name,
            job.application,
        )
        draft.minimum, draft.maximum, draft.requested = job.minimum, job.maximum, job.requested
        draft.types, draft.mix, draft.elastic = job.types, job.mix, job.elastic
        draft.weight, draft.deadline, draft.guaranteed = job.weight, job.deadline, job.guaranteed
        draft.start_pause, draft.resize_pause = job.start_pause, job.resize_pause
        draft.resize_delay = job.resize_delay
        draft.unmeasured, draft.probes = job.unmeasured, job.probes
        draft.settling, draft.tenant = job.settling, job.tenant
        # As it stands.
        step_work = self._work.step_work(self._phase)
        rates = draft.rates = self._work.rates(self._phase)
        draft.log_std = doubt_of(rates) if job.log_std is None else job.log_std
        draft.remaining = self._marks[-1] - self._done if self._work_known else math.inf
        draft.current, draft.attained, draft.waiting = self._counts, self._attained, self._waiting
        draft.pause_left = self._paused_until - at if self._paused_until > at else 0.0
        draft.age = 0.0 if self._started is None else at - self._started
        draft.unchanged = math.inf if self.allocation is None else at - self._since
        draft.restarts, draft.scale_limit = self._restarts, 2 * self._tried or 1
        draft.progress, draft.held_seconds = self._done, self._held_by_type(types)
        draft.step_work, draft.steps_left = step_work, self._steps_left(step_work)
        draft.__class__ = JobView  # type: ignore[assignment]
        return draft  # type: ignore[return-value]

    def _held_by_type(self, types: int) -> tuple[float, ...]:
        if not self._held:
            return (0.0,) * types
        return tuple([self._held.get(g, 0.0) for g in range(types)])

    def _steps_left(self, here: float) -> float:
        """Return the steps of the fixed batch that are left; inf where that is not known.

        Args:
            here: reference samples that a step is worth in the present phase.
        """
        if not here or not self._work_known:
            return math.inf
        if not self._steps_after:
            total = 0.0
            self._steps_after.append(total)
            for phase in range(len(self._marks) - 1, 0, -1):
                work = self._marks[phase] - self._marks[phase - 1]
                total += work / self._work.step_work(phase)
                self._steps_after.append(total)
            self._steps_after.reverse()
        return (self._marks[self._phase] - self._done) / here + self._steps_after[self._phase]

    def give(
        self,
        allocation: Allocation | None,
        counts: Counts | None,
        placement: Placement | None,
        *,
        slowdown: float = 1.0,
        free_moves: bool = False,
    ) -> None:
        """Give the job these devices from now on, or none, and let it pause for the change.

        Devices of other nodes in the same pattern are a change as any other, unless moves are free.
        """
        if allocation == self.allocation:
            return
        moves = free_moves and placement == self._placement and slowdown == self._slowdown
        if moves and self.allocation is not None:
            self._close()
            self.allocation = allocation
            return
        started = self.allocation is None
        self._close()
        self.version += 1
        self.allocation, self._counts, self._since = allocation, counts, self._at
        self._placement, self._slowdown = placement, slowdown
        self._used = tuple(g for g, nodes in enumerate(placement or ()) if nodes)
        self._saved, self._trained = self._done, 0.0  # it is saved before it changes
        if placement is None:
            self._rate, self._paused_until = 0.0, self._at
            return
        self._restarts += self._started is not None
        self._started = self._at if self._started is None else self._started
        self._choose_rate()
        pause = self.job.start_pause if started else self.job.resize_pause
        until = max(self._paused_until, self._at + pause)  # a pause is not cut short by another
        self._paused_until = until
        if until > self._at:
            self._pauses.append(Pause(self._at, until - self._at))

    def fail(self, *, keeps_state: bool) -> None:
        """Count a failure; what was not saved is lost, but where other devices hold it."""
        self.failures += 1
        if not keeps_state:
            self._lost += self._done - self._saved
            self._done = self._saved
            self._phase = min(bisect_right(self._marks, self._done), len(self._marks) - 1)

    def next_mark(self) -> float:
        """Return when its phase will be done if nothing changes; inf where it will not."""
        if self._rate <= 0:
            return math.inf
        left = self._marks[self._phase] - self._done
        return max(self._at, self._paused_until) + left / self._rate

    def pass_mark(self) -> bool:
        """Enter the next phase, `next_mark` having come; say whether all work is done."""
        self._done = self._marks[self._phase]
        self.version += 1
        if self._phase + 1 == len(self._marks):
            self._close()
            self.allocation = None
            return True
        self._phase += 1
        self._choose_rate()
        return False

    def choose_again(self) -> bool:
        """Let the job run as it now thinks best; say whether its rate has changed."""
        if not self._learned or self.allocation is None:
            return False
        before = self._rate
        self._choose_rate()
        if self._rate == before:
            return False
        self.version += 1
        return True

    def _choose_rate(self) -> None:
        assert self._placement is not None
        self._learned = False
        self._rate = self._work.rate(self._phase, self._placement) / self._slowdown
        self._measured &= self._work.measured(self._phase, self._placement)

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
            self.job.application,
            self._restarts,
            self.failures,
            self._lost,
            self._measured,
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
