"""What a simulation tells."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from staves.hardware import Allocation


@dataclass(frozen=True, slots=True)
class Span:
    """Devices that a job held from `since` until `until`, in seconds of simulated time."""

    since: float
    until: float
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds during which a job held devices and made no progress."""

    since: float
    seconds: float


@dataclass(frozen=True, slots=True)
class JobResult:
    """What happened to one job.

    Args:
        id: the job.
        submitted: when it came.
        started: when it first had devices; None: never.
        finished: when its work was done; None: not within the simulation.
        spans: what it held, in order; one for each change.
        pauses: the starts and changes, in order, as far as they were sat out.
    """

    id: str
    submitted: float
    started: float | None
    finished: float | None
    spans: tuple[Span, ...]
    pauses: tuple[Pause, ...]

    @property
    def jct_seconds(self) -> float | None:
        """The job's completion time: from its coming to its end; None where it has not ended."""
        return None if self.finished is None else self.finished - self.submitted

    @property
    def device_seconds(self) -> float:
        """Devices held, times the seconds for which they were."""
        return sum(len(span.allocation) * (span.until - span.since) for span in self.spans)


@dataclass(frozen=True, slots=True)
class Simulation:
    """All jobs, in the order in which they were given, and how many decisions were made."""

    jobs: tuple[JobResult, ...]
    decisions: int

    @property
    def average_jct_seconds(self) -> float | None:
        """The mean completion time of the jobs that finished; None where none did."""
        times = [job.jct_seconds for job in self.jobs if job.jct_seconds is not None]
        return fmean(times) if times else None

    @property
    def makespan_seconds(self) -> float | None:
        """From the first job's coming to the last one's end; None where not all finished."""
        ends = [job.finished for job in self.jobs if job.finished is not None]
        if not ends or len(ends) < len(self.jobs):
            return None
        return max(ends) - min(job.submitted for job in self.jobs)
