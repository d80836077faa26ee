"""Traces of Gavel (OSDI '20) and Shockwave (NSDI '23): tab-separated, without names of columns."""

from __future__ import annotations

import math
from collections.abc import Mapping

from staves.errors import InputError, quoted
from staves.simulation._csv import Row
from staves.simulation._workload import Request, Workload
from staves.simulation.readers._format import Format, Source
from staves.simulation.readers._jobs import Jobs

_LAYOUTS: Mapping[int, tuple[str, ...]] = {
    len(columns.split()): tuple(columns.split())
    for columns in (
        "job_type command steps_arg needs_data_dir total_steps arrival scale_factor",
        "job_type command working_dir steps_arg needs_data_dir total_steps scale_factor priority"
        " slo arrival",
        "job_type command working_dir steps_arg needs_data_dir total_steps scale_factor mode"
        " priority slo duration arrival",
    )
}
"""The columns by their number. Commands are never run."""

_MODES = ("static", "accordion", "gns")


def read(source: Source) -> Workload:
    """Read a trace: steps to run; in Shockwave's layout also how long they took.

    Times are seconds. An SLO of -1 is none; another is a deadline, in seconds after arrival. Jobs
    whose batch grows by itself (Shockwave's accordion and gns) run at the batch that their type
    names, and are counted.

    Raises:
        InputError: the file is damaged.
    """
    jobs = Jobs(source)
    assumed: tuple[str, ...] = ()
    layout: tuple[str, ...] | None = None
    seen: set[str] = set()
    for line, text in enumerate(source.lines, 1):
        if not text.strip():
            continue
        cells = text.split("\t")
        found = _LAYOUTS.get(len(cells))
        if found is None:
            raise InputError(
                f"{source.path}:{line}: {len(cells)} tab-separated cells, wanted 7, 10 or 12",
                hint="the line may be cut short",
            )
        row = Row(source.path, line, dict(zip(found, cells, strict=True)))
        layout = layout or found
        if found != layout:
            last = found[-1]
            raise row.error(last, f"{len(cells)} cells, but {len(layout)} in the first line")
        if text in seen:
            jobs.tally.note("repeat another line: they are jobs of their own", line)
        seen.add(text)
        jobs.add(row, _request(row, jobs))
        if "duration" in found:
            assumed = ("a job's duration is that at its first batch, on the devices it asks for",)
    return jobs.workload(assumed)


def _request(row: Row, jobs: Jobs) -> Request:
    time, devices = row.number("arrival"), row.count("scale_factor")
    steps = float(row.count("total_steps", least=1))
    slo = row.number("slo", least=-1) if row.says("slo") else -1.0
    mode = row.cells.get("mode", "static").strip()
    if mode not in _MODES:
        raise row.error("mode", f"{quoted(mode)} is none of {', '.join(_MODES)}")
    if mode != "static":
        jobs.tally.note("let their batch grow; it stays as it begins", row.line)
    seconds = row.number("duration") if "duration" in row.cells else None
    weight = row.number("priority") if "priority" in row.cells else 1.0
    if not weight:
        raise row.error("priority", "must be above zero")
    return Request(
        f"job-{row.line}",
        time,
        row.text("job_type"),
        devices,
        steps=steps,
        seconds=seconds,
        deadline=math.inf if slo < 0 else time + slo,
        weight=weight,
    )


def _tabbed(source: Source) -> bool:
    first = next(line for line in source.lines if line.strip())
    return first.count("\t") >= 3 and source.document is None


FORMAT = Format("Gavel or Shockwave trace", "jobs", read, shape=_tabbed)
