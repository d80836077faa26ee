"""Pod lists of Alibaba's openb cluster (ATC '23): fractions of devices, alternatives of types."""

from __future__ import annotations

from staves.simulation._csv import Row
from staves.simulation._workload import Request, Workload
from staves.simulation.readers._devices import device_type
from staves.simulation.readers._format import Format, Source
from staves.simulation.readers._jobs import NO_DEVICES, Jobs

COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIMES = ("creation_time", "deletion_time", "scheduled_time")
OPTIONAL = ("gpu_spec", "qos", "pod_phase", *_TIMES)

_HEAD = 0.05
"""The share of pods that may make up a thin head of the trace."""


def read(source: Source) -> Workload:
    """Read a list of pods: a job each, from its creation, for as long as it was scheduled.

    Where the first twentieth of the pods takes more than half of the time, it is dropped, and
    time counts from the first pod that is left. A pod's phase is not its outcome, and not used.

    Raises:
        InputError: the file is damaged, or has some of the columns of time and not all.
    """
    timed = any(column in source.header for column in _TIMES)
    rows = list(source.rows((*COLUMNS, *_TIMES) if timed else COLUMNS))
    jobs = Jobs(source)
    head = _end_of_head([row.number("creation_time") for row in rows]) if timed else 0.0
    for row in rows:
        _add(jobs, row, head if timed else None)
    assumed = ["who asks for a fraction of a device gets a whole one"]
    if timed:
        assumed.append("a pod's phase is the last that was seen, not its outcome: not used")
    else:
        assumed.append("the file has no times: all pods come at once, and nothing tells their end")
    return jobs.workload(tuple(assumed), from_first=timed)


def _add(jobs: Jobs, row: Row, head: float | None) -> None:
    devices, thousandths = row.count("num_gpu"), row.number("gpu_milli")
    for column in ("cpu_milli", "memory_mib"):
        row.number(column)
    name = row.text("name")
    created = 0.0 if head is None else row.number("creation_time")
    if devices and (not 0 < thousandths <= 1000 or (devices > 1 and thousandths != 1000)):
        raise row.error("gpu_milli", f"{thousandths:g} of each of {devices} devices")
    if devices and thousandths < 1000:
        jobs.tally.note("ask for a fraction of a device", row.line)
    if head is not None and not row.says("scheduled_time"):
        jobs.tally.drop("were never scheduled", row.line)
        return
    if devices == 0:
        jobs.tally.drop(NO_DEVICES, row.line)
        return
    if head is not None and created < head:
        jobs.tally.drop("come in the thin head of the trace", row.line)
        return
    seconds = None
    if head is not None:
        if not row.says("deletion_time"):
            jobs.tally.drop("had not ended", row.line)
            return
        seconds = row.number("deletion_time") - row.number("scheduled_time")
        if seconds < 0:
            jobs.tally.drop("end before they begin", row.line)
            return
    types = _types(jobs, row)
    if types == ():
        jobs.tally.drop("ask for unknown device types only", row.line)
        return
    request = Request(
        name, created, "pod", devices, seconds=seconds, types=types, share=thousandths / 1000
    )
    jobs.add(row, request, "name")


def _types(jobs: Jobs, row: Row) -> tuple[str, ...] | None:
    """Return the types that will do, each once; None for any."""
    if not row.says("gpu_spec"):
        return None
    found = {part: device_type(part) for part in row.text("gpu_spec").split("|")}
    if None in found.values():
        jobs.tally.note("name a device type that is not known", row.line)
    return tuple(dict.fromkeys(name for name in found.values() if name is not None))


def _end_of_head(times: list[float]) -> float:
    """Return when the head has ended: 0 where the trace has none."""
    ordered = sorted(times)
    if not ordered:
        return 0.0
    cut = ordered[int(_HEAD * len(ordered))]
    return cut if cut - ordered[0] > 0.5 * (ordered[-1] - ordered[0]) > 0 else ordered[0]


FORMAT = Format("openb pod list", "jobs", read, COLUMNS, OPTIONAL)
