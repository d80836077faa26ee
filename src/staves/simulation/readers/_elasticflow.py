"""Traces of ElasticFlow (ASPLOS '23): jobs with deadlines."""

from __future__ import annotations

import math

from staves.simulation._workload import Request, Workload
from staves.simulation.readers._format import Format, Source
from staves.simulation.readers._jobs import Jobs

COLUMNS = (
    "job_id",
    "submit_time",
    "model_name",
    "ddl",
    "batch_size",
    "num_gpu",
    "duration",
    "iteration",
)
OPTIONAL = ("real_iteration", "real_duration", "best_effort")


def read(source: Source) -> Workload:
    """Read a trace, in seconds; `ddl` counts from the same zero as `submit_time`.

    A job of best effort has no deadline. `real_duration` and `real_iteration` are not used.

    Raises:
        InputError: the file is damaged.
    """
    jobs = Jobs(source)
    for row in source.rows(COLUMNS):
        time, deadline = row.number("submit_time"), row.number("ddl")
        best_effort = row.count("best_effort") if row.says("best_effort") else 0
        if best_effort > 1:
            raise row.error("best_effort", f"{best_effort} is neither 1 nor 0")
        if not best_effort and deadline < time:
            jobs.tally.note("have a deadline before they come: it cannot be met", row.line)
        request = Request(
            f"job-{row.count('job_id')}",
            time,
            row.text("model_name"),
            row.count("num_gpu"),
            row.count("batch_size", least=1),
            steps=float(row.count("iteration", least=1)),
            seconds=row.number("duration"),
            deadline=math.inf if best_effort else deadline,
        )
        jobs.add(row, request, "job_id")
    return jobs.workload(("a job's duration is that on the devices it asks for",))


FORMAT = Format("ElasticFlow trace", "jobs", read, COLUMNS, OPTIONAL)
