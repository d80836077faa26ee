"""What a change of devices costs a job on one engine, beside what it costs on another."""

from __future__ import annotations

import shlex
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from staves.engines._base import Engine, Status
from staves.hardware import Device
from staves.testing._engine_job import SCRIPT, Job

_CHANGES = 8  # of one job
_TURNS = 2  # jobs on each engine


def pauses(engines: Mapping[str, Callable[[Path], Engine]], folder: Path) -> dict[str, Any]:
    """Return by engine the medians of the pauses, in seconds, as a job grows and as it shrinks.

    In turns, so that all engines meet the same load; each has three like devices at least.
    """
    found: dict[str, dict[str, list[float]]] = {
        name: {"grow": [], "shrink": []} for name in engines
    }
    for turn in range(_TURNS):
        for name, make in engines.items():
            own = folder / f"{name}-{turn}"
            own.mkdir()
            for kind, seconds in _of_one(make, own):
                found[name][kind].append(seconds)
    return {
        name: {
            kind: {"median": round(statistics.median(each), 4), "most": round(max(each), 4)}
            for kind, each in kinds.items()
        }
        for name, kinds in found.items()
    }


def _of_one(make: Callable[[Path], Engine], folder: Path) -> list[tuple[str, float]]:
    """Grow and shrink a job whose steps come as fast as they can."""
    job = Job(lambda: make(folder / "home"), folder / "work")
    (job.folder / "free.py").write_text(SCRIPT.replace("run.epochs(30)", "run.epochs(10**6)"))
    found: list[tuple[str, float]] = []

    def until_on(devices: Sequence[Device]) -> Status:
        names = {device.name for device in devices}
        trained = f"steps of {names}"
        return job.until(
            lambda s: set(s.devices) == names and bool(s.spans and s.spans[-1]["steps"] > 50),
            trained,
        )

    try:
        job.launch(f"exec {shlex.quote(sys.executable)} free.py .", job.devices[:2])
        until_on(job.devices[:2])
        for request in range(1, 1 + _CHANGES):
            wanted = job.devices[: 2 + request % 2]
            job.resize(wanted, request)
            span = until_on(wanted).spans[-1]
            found.append(("grow" if request % 2 else "shrink", float(span["pause_seconds"])))
        return found
    finally:
        job.abandon()
