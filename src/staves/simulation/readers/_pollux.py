"""Workloads of Pollux (OSDI '21) and Sia (SOSP '23), and our own, which may say more."""

from __future__ import annotations

import math
from typing import get_args

from staves.documents import suggestion
from staves.errors import quoted
from staves.scheduling import JobKind
from staves.simulation._csv import Row
from staves.simulation._workload import Request, Workload
from staves.simulation.readers._format import Format, Source
from staves.simulation.readers._jobs import Jobs

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")
OPTIONAL = (
    "kind",
    "minimum",
    "maximum",
    "weight",
    "preemptible",
    "seconds",
    "steps",
    "deadline",
    "types",
    "share",
    "tenant",
)


def read(source: Source) -> Workload:
    """Read a workload: one job a line, sorted by time or not; see `docs/traces.md`.

    Raises:
        InputError: the file is damaged, or a name stands twice for unlike jobs.
    """
    jobs = Jobs(source)
    for row in source.rows(COLUMNS):
        jobs.add(row, _request(row), "name")
    return jobs.workload()


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
    preemptible = row.text("preemptible") if row.says("preemptible") else "1"
    if preemptible not in ("0", "1"):
        raise row.error("preemptible", f"{quoted(preemptible)} is neither 1 nor 0")
    share = _positive(row, "share") or 1.0
    if share > 1:
        raise row.error("share", f"{share:g} is above 1")
    return Request(
        row.text("name"),
        row.number("time"),
        row.text("application"),
        row.count("num_replicas", least=1),
        row.count("batch_size", least=1),
        steps=_positive(row, "steps"),
        seconds=_positive(row, "seconds"),
        deadline=row.number("deadline") if row.says("deadline") else math.inf,
        kind=kind,
        minimum=minimum,
        maximum=maximum,
        types=tuple(row.text("types").split("|")) if row.says("types") else None,
        share=share,
        tenant=row.text("tenant") if row.says("tenant") else "",
        weight=_positive(row, "weight") or 1.0,
        preemptible=preemptible == "1",
    )


def _positive(row: Row, column: str) -> float | None:
    if not row.says(column):
        return None
    value = row.number(column)
    if not value:
        raise row.error(column, "must be above zero")
    return value


FORMAT = Format("Pollux or Sia workload, or Staves's own", "jobs", read, COLUMNS, OPTIONAL)
