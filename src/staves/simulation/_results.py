"""What a simulation tells."""

from __future__ import annotations

from dataclasses import dataclass, field
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
        application: the kind of job.
        restarts: changes of its devices, the first start not counted.
        failures: how often it lost a device to a failure.
        lost: reference samples that failures have undone.
        measured: whether all its speeds rest on measured points, none on what lies outside.
    """

    id: str
    submitted: float
    started: float | None
    finished: float | None
    spans: tuple[Span, ...]
    pauses: tuple[Pause, ...]
    application: str = ""
    restarts: int = 0
    failures: int = 0
    lost: float = 0.0
    measured: bool = True

    @property
    def jct_seconds(self) -> float | None:
        """The job's completion time: from its coming to its end; None where it has not ended."""
        return None if self.finished is None else self.finished - self.submitted

    @property
    def device_seconds(self) -> float:
        """Devices held, times the seconds for which they were."""
        return sum(len(span.allocation) * (span.until - span.since) for span in self.spans)

    @property
    def device_seconds_by_type(self) -> dict[str, float]:
        """The same by device type, in order of their names."""
        seconds: dict[str, float] = {}
        for span in self.spans:
            for name, count in span.allocation.configuration.items():
                seconds[name] = seconds.get(name, 0.0) + count * (span.until - span.since)
        return {name: seconds[name] for name in sorted(seconds)}


@dataclass(frozen=True, slots=True)
class Timing:
    """What the simulation itself took; the only figures that differ between equal runs.

    Args:
        decisions: CPU seconds of each decision.
        wall: wall seconds of all.
        cpu: CPU seconds of all.
    """

    decisions: tuple[float, ...] = ()
    wall: float = 0.0
    cpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Simulation:
    """All jobs, in the order in which they were given, and how many decisions were made.

    Args:
        jobs: one each.
        decisions: how many.
        gaps: 1 - value / bound of each decision that had a bound.
        timing: what it took; two simulations that differ only in this are equal.
    """

    jobs: tuple[JobResult, ...]
    decisions: int
    gaps: tuple[float, ...] = ()
    timing: Timing = field(default=Timing(), compare=False)

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
