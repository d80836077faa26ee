"""Gavel's tables of steps a second: by worker type, and `('job type', workers)`."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from staves.errors import InputError, quoted
from staves.simulation._counted import Tally
from staves.simulation._rated import RatedApplication
from staves.simulation.readers._format import open_source

APART = "_unconsolidated"
"""Ends the worker types whose devices are on different servers."""


def read_throughputs(path: Path, pause_seconds: float) -> dict[str, RatedApplication]:
    """Read Gavel's `simulation_throughputs.json`.

    Zeros mean that it does not fit; throughputs of shared devices are passed over.

    Args:
        path: the file.
        pause_seconds: of a start or restart.

    Raises:
        InputError: it is not of that form.
    """
    found = throughputs_of(path, open_source(path).document, Tally())
    return {name: replace(one, pause_seconds=pause_seconds) for name, one in found.items()}


def throughputs_of(path: Path, document: Any, tally: Tally) -> dict[str, RatedApplication]:
    """Return the applications of the file's JSON.

    In an older form keys are job types without a number, for one device; entries without a
    throughput alone are left out there, and counted.

    Raises:
        InputError: it is not of that form.
    """
    if not isinstance(document, dict):
        raise InputError(f"{path}: holds no mapping of worker types", hint="is it the right file?")
    for worker, jobs in document.items():
        if not isinstance(jobs, dict):
            raise InputError(
                f"{path}: {quoted(worker)}: holds no mapping of jobs", hint="correct the entry"
            )
    keys = [key for jobs in document.values() for key in jobs]
    older = not any(key.startswith("(") for key in keys)
    found: dict[str, tuple[dict[str, dict[int, float]], dict[str, dict[int, float]]]] = {}
    for worker, jobs in document.items():
        kind = worker.removesuffix(APART)
        for key, cells in jobs.items():
            if older and isinstance(cells, dict) and "null" not in cells:
                tally.drop("have no throughput alone")
                continue
            name, devices = (key, 1) if older else _key(path, worker, key)
            tables = found.setdefault(name, ({}, {}))
            rates = tables[kind != worker].setdefault(kind, {})
            rates[devices] = _rate(path, worker, key, cells)
    return {name: RatedApplication(name, *tables) for name, tables in found.items()}


def _key(path: Path, worker: str, key: str) -> tuple[str, int]:
    try:
        name, devices = ast.literal_eval(key)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        name, devices = None, None
    if not isinstance(name, str) or not isinstance(devices, int) or devices < 1:
        raise InputError(
            f"{path}: {worker}: {quoted(key)} is not ('job type', devices)",
            hint="keys are tuples as Python writes them",
        )
    return name, devices


def _rate(path: Path, worker: str, key: str, cells: Any) -> float:
    rate = cells.get("null") if isinstance(cells, dict) else None
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < math.inf:
        raise InputError(
            f"{path}: {worker}: {key}: null: must be a number, not below 0",
            hint="correct the entry",
        )
    return float(rate)
