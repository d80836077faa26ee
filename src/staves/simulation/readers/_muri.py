"""Traces of Muri (SIGCOMM '22), in milliseconds."""

from __future__ import annotations

from staves.simulation._workload import Request, Workload
from staves.simulation.readers._format import Format, Source
from staves.simulation.readers._jobs import Jobs

COLUMNS = (
    "job_id",
    "num_gpu",
    "submit_time",
    "iterations",
    "model_name",
    "batch_size",
    "duration",
    "interval",
    "iteration_time",
    "resource_time_0",
    "resource_time_1",
    "resource_time_2",
    "priority",
)
_MILLISECOND = 1e-3


def read(source: Source) -> Workload:
    """Read a trace; its milliseconds become seconds.

    How long jobs use each resource (`resource_time_*`) is not used: jobs share no devices here.

    Raises:
        InputError: the file is damaged.
    """
    jobs = Jobs(source)
    for row in source.rows(COLUMNS):
        seconds = row.number("duration") * _MILLISECOND
        steps = row.count("iterations", least=1)
        computed = steps * row.number("iteration_time") * _MILLISECOND
        if abs(computed - seconds) > 0.01 * seconds + 2:
            jobs.tally.note("last otherwise than iterations x iteration_time: not used", row.line)
        request = Request(
            f"job-{row.count('job_id')}",
            row.number("submit_time") * _MILLISECOND,
            row.text("model_name"),
            row.count("num_gpu"),
            row.count("batch_size", least=1),
            steps=float(steps),
            seconds=seconds,
        )
        jobs.add(row, request, "job_id")
    return jobs.workload(("times are milliseconds",))


FORMAT = Format("Muri trace", "jobs", read, COLUMNS)
