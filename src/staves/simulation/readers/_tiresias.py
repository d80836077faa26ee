"""Job lists of Tiresias (NSDI '19) and of the simulators that grew out of its own."""

from __future__ import annotations

from staves.simulation._workload import Request, Workload
from staves.simulation.readers._format import Format, Source
from staves.simulation.readers._jobs import Jobs

COLUMNS = ("job_id", "num_gpu", "submit_time", "model_name", "duration")
OPTIONAL = (
    "iterations",
    "interval",
    "start_time",
    "model_size",
    "aggr_interval",
    "model_scale",
)


def read(source: Source) -> Workload:
    """Read a list of jobs, in seconds.

    Raises:
        InputError: the file is damaged.
    """
    jobs = Jobs(source)
    for row in source.rows(COLUMNS):
        request = Request(
            f"job-{row.count('job_id')}",
            row.number("submit_time"),
            row.text("model_name"),
            row.count("num_gpu"),
            steps=float(row.count("iterations", least=1)) if row.says("iterations") else None,
            seconds=row.number("duration"),
        )
        jobs.add(row, request, "job_id")
    return jobs.workload()


def read_durations(source: Source) -> Workload:
    """Read a column of durations: jobs of one device each, all there at the start.

    Raises:
        InputError: the file is damaged.
    """
    jobs = Jobs(source)
    for row in source.rows(("duration",)):
        seconds = row.number("duration")
        jobs.add(row, Request(f"job-{row.line}", 0.0, "unnamed", 1, seconds=seconds))
    return jobs.workload(
        ("the file holds durations only: jobs ask for one device, and all come at once",)
    )


FORMAT = Format("Tiresias job list", "jobs", read, COLUMNS, OPTIONAL)
DURATIONS = Format("Tiresias durations", "jobs", read_durations, ("duration",))
