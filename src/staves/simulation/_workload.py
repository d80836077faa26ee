"""Workloads: which job comes when, of which application, and what its owner asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from staves.documents import suggestion
from staves.errors import InputError, quoted
from staves.scheduling import JobKind
from staves.simulation._csv import Row, read_lines, read_rows

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
        steps: work in steps, where the workload says it; else it follows from the profile.
        kind: what it can do, where the workload says it; else as the policy takes all jobs.
        minimum, maximum: devices that it may have, where the workload says so.
        weight: of its delay against that of others.
        preemptible: whether its devices may be taken or changed before it ends.
        deadline: when it should have ended, seconds since the workload's start; inf for no such
            time.
    """

    name: str
    time: float
    application: str
    devices: int
    batch: int
    steps: float | None = None
    kind: JobKind | None = None
    minimum: int | None = None
    maximum: int | None = None
    weight: float = 1.0
    preemptible: bool = True
    deadline: float = math.inf


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
    """Read a workload of a layout that its name tells: `.trace` is Gavel's, others Pollux's.

    Raises:
        InputError: the file is damaged, or holds no job.
    """
    if path.name.removesuffix(".gz").endswith(".trace"):
        return read_trace(path)
    return _read_csv(path)


def _read_csv(path: Path) -> Workload:
    """Read a workload in the layout of Pollux and Sia: one job a line, columns as in `COLUMNS`.

    Our own layout has more columns, each of which may be absent, or empty in a line: kind
    (adaptive, elastic, rigid), minimum, maximum, weight, preemptible (1 or 0), deadline (seconds
    since the workload's start).

    Lines that repeat another are dropped, lines out of order of time are put in order, and the
    workload's notes count both.

    Raises:
        InputError: the file is damaged, or a name stands twice for unlike jobs.
    """
    seen: dict[str, Request] = {}
    repeated = unsorted = 0
    latest = 0.0
    for row in read_rows(path, COLUMNS):
        request = _request(row)
        if request.name in seen:
            if seen[request.name] != request:
                raise row.error("name", f"{quoted(request.name)} stands twice, for unlike jobs")
            repeated += 1
            continue
        unsorted += request.time < latest
        latest = max(latest, request.time)
        seen[request.name] = request
    return _workload_of(path, list(seen.values()), {"repeated": repeated, "out of order": unsorted})


def _request(row: Row) -> Request:
    kind: JobKind | None = None
    if row.says("kind"):
        kind = next((known for known in get_args(JobKind) if known == row.text("kind")), None)
        if kind is None:
            hint = suggestion(row.text("kind"), get_args(JobKind))
            raise row.error("kind", f"unknown kind {quoted(row.text('kind'))}", hint)
    minimum = row.count("minimum", least=1) if row.says("minimum") else None
    maximum = row.count("maximum", least=1) if row.says("maximum") else None
    if minimum is not None and maximum is not None and maximum < minimum:
        raise row.error("maximum", f"{maximum} is below the minimum, {minimum}")
    weight = row.number("weight") if row.says("weight") else 1.0
    if not weight:
        raise row.error("weight", "must be above zero")
    preemptible = row.text("preemptible") if row.says("preemptible") else "1"
    if preemptible not in ("0", "1"):
        raise row.error("preemptible", f"{quoted(preemptible)} is neither 1 nor 0")
    return Request(
        row.text("name"),
        row.number("time"),
        row.text("application"),
        row.count("num_replicas", least=1),
        row.count("batch_size", least=1),
        kind=kind,
        minimum=minimum,
        maximum=maximum,
        weight=weight,
        preemptible=preemptible == "1",
        deadline=row.number("deadline") if row.says("deadline") else math.inf,
    )


_TRACES: Mapping[int, tuple[str, ...]] = {
    len(columns.split()): tuple(columns.split())
    for columns in (
        "job_type command steps_arg needs_data_dir total_steps arrival scale_factor",
        "job_type command working_dir steps_arg needs_data_dir total_steps scale_factor priority"
        " slo arrival",
        "job_type command working_dir steps_arg needs_data_dir total_steps scale_factor mode"
        " priority slo duration arrival",
    )
}
"""The columns of Gavel's and Shockwave's traces, by their number. Commands are never run."""


def read_trace(path: Path) -> Workload:
    """Read a trace of Gavel or Shockwave: tab-separated, without names of columns.

    Lines that ask for no device are dropped, lines out of order of time put in order, and the
    workload's notes count both.

    Raises:
        InputError: the file is damaged.
    """
    requests: list[Request] = []
    dropped = unsorted = 0
    latest = 0.0
    for line, text in enumerate(read_lines(path), 1):
        if not text.strip():
            continue
        cells = text.split("\t")
        if len(cells) not in _TRACES:
            raise InputError(
                f"{path}:{line}: {len(cells)} tab-separated cells, wanted 7, 10 or 12",
                hint="the line may be cut short",
            )
        row = Row(path, line, dict(zip(_TRACES[len(cells)], cells, strict=True)))
        devices, time = row.count("scale_factor"), row.number("arrival")
        steps = float(row.count("total_steps", least=1))
        if devices == 0:
            dropped += 1
            continue
        unsorted += time < latest
        latest = max(latest, time)
        requests.append(Request(f"job-{line}", time, row.text("job_type"), devices, 1, steps))
    return _workload_of(path, requests, {"no devices": dropped, "out of order": unsorted})


def _workload_of(path: Path, requests: list[Request], counted: dict[str, int]) -> Workload:
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
    }
    notes = tuple(f"{path}: {n} lines {words[key]}" for key, n in counted.items() if n)
    name = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    name = f"{path.parent.name}/{name}" if path.parent.name else name
    ordered = tuple(sorted(requests, key=lambda request: request.time))
    return Workload(name, ordered, notes)
