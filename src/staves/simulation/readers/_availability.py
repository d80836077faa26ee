"""Availability traces: Sailor's (SOSP '25), and sizes of virtual clusters from Helios (SC '21)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from staves.errors import InputError, quoted
from staves.simulation._availability import ANY, Availability
from staves.simulation._counted import Tally
from staves.simulation.readers._devices import device_type
from staves.simulation.readers._format import Format, Source, entry
from staves.simulation.readers._jobs import UNSORTED
from staves.simulation.readers._times import seconds_of

_AGAIN = "have the time of another line: the last counts"


def _read_list(source: Source) -> Availability:
    """Read Sailor's JSON, `[{"Time": seconds, "GPUs": count}, ...]`; the type is not told."""
    times, counts = [], []
    for index, value in enumerate(source.document):
        where = f"[{index}]"
        if not isinstance(value, Mapping):
            raise InputError(f"{source.path}: {where}: must be an object", hint='{"Time", "GPUs"}')
        count = entry(source.path, where, value, "GPUs")
        if count != int(count):
            raise InputError(
                f"{source.path}: {where}: GPUs: {count:g} is no whole number",
                hint="correct the entry",
            )
        times.append(entry(source.path, where, value, "Time"))
        counts.append(int(count))
    lines = list(range(1, len(times) + 1))
    assumed = ("the device type is not told: any will do",)
    return _availability(source, times, {ANY: counts}, lines, Tally(), assumed)


def _read_zones(source: Source) -> Availability:
    """Read Sailor's CSV: a column for each type and zone, `A100-40_us-central1-a`; zones add up."""
    tally = Tally()
    columns = {name: device_type(name.partition("_")[0]) for name in source.header[2:]}
    for name in sorted(name for name, known in columns.items() if known is None):
        tally.drop(f"hold devices of an unknown type, {quoted(name)}", 1)
    known = {name: kind for name, kind in columns.items() if kind is not None}
    if not known:
        raise InputError(
            f"{source.path}:1: no column of a known device type", hint="like A100-40_us-central1-a"
        )
    rows = list(source.rows(("Timestamp", *known)))
    devices: dict[str, list[int]] = {kind: [0] * len(rows) for kind in known.values()}
    for index, row in enumerate(rows):
        for name, kind in known.items():
            devices[kind][index] += row.count(name)
    times = [row.number("Timestamp") for row in rows]
    assumed = ("zones are one cluster: their devices add up",)
    return _availability(source, times, devices, [row.line for row in rows], tally, assumed)


def _is_zones(source: Source) -> bool:
    return source.header[1:2] == ("Timestamp",) and len(source.header) > 2


def _read_sizes(source: Source) -> Availability:
    """Read the sizes of Helios's virtual clusters by day; their total is what is there."""
    tally = Tally()
    clusters = [name for name in source.header if name not in ("date", "total")]
    rows = list(source.rows(("date", *clusters, "total")))
    counts = []
    for row in rows:
        total = row.count("total")
        if sum(row.count(name) for name in clusters) != total:
            tally.note("have another total than the sum of their clusters: the total counts")
        counts.append(total)
    times = [seconds_of(row, "date") for row in rows]
    assumed = ("the device type is not told: any will do",)
    lines = [row.line for row in rows]
    return _availability(source, times, {ANY: counts}, lines, tally, assumed)


def _read_states(source: Source) -> Availability:
    """Read the state of one of Helios's virtual clusters by the minute: its number of devices."""
    rows = list(source.rows(("time", "total_gpu_num", "running_gpu_num", "idle_gpu_num")))
    times = [seconds_of(row, "time") for row in rows]
    counts = [row.count("total_gpu_num") for row in rows]
    assumed = ("the device type is not told: any will do",)
    lines = [row.line for row in rows]
    return _availability(source, times, {ANY: counts}, lines, Tally(), assumed)


def _availability(
    source: Source,
    times: Sequence[float],
    devices: Mapping[str, Sequence[int]],
    lines: Iterable[int],
    tally: Tally,
    assumed: tuple[str, ...],
) -> Availability:
    """Return the trace from time 0, in order; states that repeat the one before are left out."""
    if not times:
        raise InputError(f"{source.path}:2: no time", hint="the file may be cut short")
    latest = -math.inf
    at: dict[float, int] = {}
    for index, (time, line) in enumerate(zip(times, lines, strict=True)):
        if time in at:
            tally.drop(_AGAIN, line)
        elif time < latest:
            tally.note(UNSORTED, line)
        latest = max(latest, time)
        at[time] = index
    kept: list[tuple[float, tuple[int, ...]]] = []
    for time in sorted(at):
        state = tuple(counts[at[time]] for counts in devices.values())
        if not kept or kept[-1][1] != state:
            kept.append((time, state))
    zero = kept[0][0]
    return Availability(
        source.name,
        tuple(time - zero for time, _ in kept),
        {name: tuple(state[g] for _, state in kept) for g, name in enumerate(devices)},
        tally.counted(),
        assumed,
    )


FORMATS = (
    Format(
        "Sailor availability, JSON",
        "availability",
        _read_list,
        shape=lambda source: isinstance(source.document, list),
    ),
    Format("Sailor availability, CSV", "availability", _read_zones, shape=_is_zones),
    Format(
        "Helios cluster sizes",
        "availability",
        _read_sizes,
        shape=lambda source: source.header[:1] == ("date",) and "total" in source.header,
    ),
    Format(
        "Helios cluster states",
        "availability",
        _read_states,
        ("time", "total_gpu_num", "running_gpu_num", "idle_gpu_num"),
        (
            "total_job_num",
            "running_job_num",
            "pending_job_num",
            "total_gpujob_num",
            "running_gpujob_num",
            "pending_gpujob_num",
            "pending_gpu_num",
            "gpu_utilization",
        ),
    ),
)
