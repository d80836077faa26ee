"""Traces of Chronus (SoCC '21): jobs with strict, soft or no deadlines, in minutes."""

from __future__ import annotations

import math

from staves.errors import quoted
from staves.simulation._csv import Row
from staves.simulation._workload import Request, Workload
from staves.simulation.readers._format import Format, Source
from staves.simulation.readers._jobs import Jobs

COLUMNS = (
    "job_id",
    "user",
    "num_gpu",
    "submit_time",
    "iterations",
    "model_name",
    "duration",
    "interval",
    "expect_time_list",
    "expect_value_list",
    "best_effort",
    "job_type",
)
_KINDS = ("strict", "soft", "best")
_MINUTE = 60.0


def read(source: Source) -> Workload:
    """Read a trace; its minutes become seconds.

    A deadline is the first of `expect_time_list`, counted from the submission: until then a job is
    worth all of its value. Jobs of best effort have none. `user` is a virtual cluster.

    Raises:
        InputError: the file is damaged.
    """
    jobs = Jobs(source)
    for row in source.rows(COLUMNS):
        time = row.number("submit_time") * _MINUTE
        expected = _expected(row)
        kind = row.text("job_type")
        if kind not in _KINDS:
            raise row.error("job_type", f"{quoted(kind)} is none of {', '.join(_KINDS)}")
        request = Request(
            f"job-{row.count('job_id')}",
            time,
            row.text("model_name"),
            row.count("num_gpu"),
            steps=float(row.count("iterations", least=1)),
            seconds=row.number("duration") * _MINUTE,
            deadline=math.inf if kind == "best" else time + expected * _MINUTE,
            tenant=row.text("user"),
        )
        jobs.add(row, request, "job_id")
    return jobs.workload(
        (
            "times are taken as minutes: the file does not say so, but its span is 14 days then",
            "deadlines are the first expected time, counted from the submission",
        )
    )


def _expected(row: Row) -> float:
    """Return the first expected time; lists are joined by `-`."""
    times = _listed(row, "expect_time_list")
    values = _listed(row, "expect_value_list")
    if len(times) != len(values):
        raise row.error("expect_value_list", f"{len(values)} values for {len(times)} times")
    if times != sorted(times):
        raise row.error("expect_time_list", "must not descend")
    return times[0]


def _listed(row: Row, column: str) -> list[float]:
    parts = row.text(column).split("-")
    return [
        Row(row.path, row.line, {column: part}).number(column) if part else _absent(row, column)
        for part in parts
    ]


def _absent(row: Row, column: str) -> float:
    raise row.error(column, f"{quoted(row.text(column))} is no list of numbers joined by '-'")


FORMAT = Format("Chronus trace", "jobs", read, COLUMNS)
