"""The job list of Microsoft's Philly clusters (ATC '19) in the form of Pollux's authors."""

from __future__ import annotations

from staves.simulation._workload import Request, Workload
from staves.simulation.readers._format import Format, Source
from staves.simulation.readers._jobs import Jobs
from staves.simulation.readers._times import seconds_of

COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")


def read(source: Source) -> Workload:
    """Read the list: when jobs came, for how long they ran, and on how many devices.

    `cluster` is a virtual cluster, and becomes the tenant. Times have no zone and are taken as
    they stand, so that a change of the clock would be a gap.

    Raises:
        InputError: the file is damaged.
    """
    jobs = Jobs(source)
    for row in source.rows(COLUMNS):
        time, seconds, devices = (
            seconds_of(row, "timestamp"),
            row.number("duration"),
            row.count("num_gpus"),
        )
        device_seconds = row.number("gpu_time")
        cells = tuple(row.cells[column] for column in COLUMNS)
        if jobs.repeats(row, cells):
            continue
        if abs(device_seconds - seconds * devices) > 1e-3 * device_seconds + 1:
            jobs.tally.note("have another gpu_time than duration x num_gpus: not used", row.line)
        tenant = row.text("cluster")
        request = Request(
            f"job-{row.line}", time, "philly", devices, seconds=seconds, tenant=tenant
        )
        jobs.add(row, request)
    return jobs.workload(("the file names no device type: any will do",), from_first=True)


FORMAT = Format("Philly job list", "jobs", read, COLUMNS)
