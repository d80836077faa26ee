"""Workloads: which job comes when, of which application, and what its owner asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from staves.errors import InputError, quoted
from staves.simulation._csv import read_rows

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")


@dataclass(frozen=True, slots=True)
class Request:
    """One job as it was submitted.

    Args:
        name: unique in its workload.
        time: seconds since the workload's start.
        application: what it runs.
        devices: that it asks for.
        batch: total batch that it asks for, samples.
    """

    name: str
    time: float
    application: str
    devices: int
    batch: int


@dataclass(frozen=True, slots=True)
class Workload:
    """All jobs, in order of time.

    Args:
        name: for reports.
        requests: the jobs.
        notes: what its reader dropped or put right, one line each.
    """

    name: str
    requests: tuple[Request, ...]
    notes: tuple[str, ...] = ()


def read_workload(path: Path) -> Workload:
    """Read a workload in the layout of Pollux and Sia: one job a line, columns as in `COLUMNS`.

    Lines that repeat another are dropped, lines out of order of time are put in order, and the
    workload's notes count both.

    Raises:
        InputError: the file is damaged, or a name stands twice for unlike jobs.
    """
    seen: dict[str, Request] = {}
    repeated = unsorted = 0
    latest = 0.0
    for row in read_rows(path, COLUMNS):
        request = Request(
            row.text("name"),
            row.number("time"),
            row.text("application"),
            row.count("num_replicas", least=1),
            row.count("batch_size", least=1),
        )
        if request.name in seen:
            if seen[request.name] != request:
                raise row.error("name", f"{quoted(request.name)} stands twice, for unlike jobs")
            repeated += 1
            continue
        unsorted += request.time < latest
        latest = max(latest, request.time)
        seen[request.name] = request
    return workload_of(path, list(seen.values()), {"repeated": repeated, "out of order": unsorted})


def workload_of(path: Path, requests: list[Request], counted: dict[str, int]) -> Workload:
    """Return the workload of what was read, with a note for each count above zero.

    Raises:
        InputError: there is no job.
    """
    if not requests:
        raise InputError(f"{path}:2: no job", hint="the file may be cut short")
    words = {
        "repeated": "repeat another line, and were dropped",
        "out of order": "were out of order of time, and were sorted",
        "no devices": "ask for no device, and were dropped",
        "no profile": "have no throughput in the profiles, and were dropped",
    }
    notes = tuple(f"{path}: {n} lines {words[key]}" for key, n in counted.items() if n)
    name = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    name = f"{path.parent.name}/{name}" if path.parent.name else name
    ordered = tuple(sorted(requests, key=lambda request: request.time))
    return Workload(name, ordered, notes)
