"""What all readers of jobs do alike: repeated lines, order of time, jobs that ask for nothing."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from staves.errors import InputError, quoted
from staves.simulation._counted import Tally
from staves.simulation._csv import Row
from staves.simulation._workload import Request, Workload
from staves.simulation.readers._format import Source

REPEATED = "repeat another line"
UNSORTED = "come before the line above them: all were sorted"
NO_DEVICES = "ask for no device"
NO_TIME = "last no time"


class Jobs:
    """The jobs of a file as they are read.

    Args:
        source: the file.
    """

    def __init__(self, source: Source) -> None:
        self.tally = Tally()
        self._source = source
        self._requests: list[Request] = []
        self._named: dict[str, Request] = {}
        self._seen: set[Hashable] = set()

    def repeats(self, row: Row, what: Hashable) -> bool:
        """Say whether `what` came before, and count the line as repeated if so."""
        if what in self._seen:
            self.tally.drop(REPEATED, row.line)
            return True
        self._seen.add(what)
        return False

    def add(self, row: Row, request: Request, name_column: str | None = None) -> None:
        """Take a job, unless it asks for no device, lasts no time or repeats another line.

        Args:
            row: where it stands.
            request: the job.
            name_column: the column with its name, where the file has one: a name that stands twice
                for unlike jobs is an error.

        Raises:
            InputError: it does.
        """
        if name_column is not None and request.name in self._named:
            if self._named[request.name] != request:
                what = f"{quoted(request.name)} stands twice, for unlike jobs"
                raise row.error(name_column, what)
            self.tally.drop(REPEATED, row.line)
            return
        if name_column is not None:
            self._named[request.name] = request
        if request.devices == 0:
            self.tally.drop(NO_DEVICES, row.line)
            return
        if request.seconds == 0:
            self.tally.drop(NO_TIME, row.line)
            return
        if self._requests and request.time < self._requests[-1].time:
            self.tally.note(UNSORTED, row.line)
        self._requests.append(request)

    def workload(self, assumed: tuple[str, ...] = (), *, from_first: bool = False) -> Workload:
        """Return all jobs in order of time.

        Args:
            assumed: what the reader takes for granted.
            from_first: whether time counts from the first job, not from the file's own zero.

        Raises:
            InputError: there is no job.
        """
        if not self._requests:
            dropped = "; ".join(str(one) for one in self.tally.counted())
            raise InputError(
                f"{self._source.path}:2: no job" + (f" is left: {dropped}" if dropped else ""),
                hint="the file may be cut short",
            )
        ordered = sorted(self._requests, key=lambda request: request.time)
        if from_first:
            ordered = [_shifted(request, ordered[0].time) for request in ordered]
        return Workload(self._source.name, tuple(ordered), self.tally.counted(), assumed)


def _shifted(request: Request, zero: float) -> Request:
    return replace(request, time=request.time - zero, deadline=request.deadline - zero)
