"""The public tables, and which jobs are new while which are past."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from staves.errors import StavesError
from staves.estimation import Cell
from staves.simulation import ThroughputTable, read_file

Table = Mapping[str, Mapping[Cell, float]]
"""Throughputs by job and cell."""

LEAST_CELLS = 16
"""Jobs with fewer are past jobs only."""

FRESH = ("lambda-pytorch-v0", "lambda-pytorch-v1", "lambda-tf")
"""Sources that were not looked at while the model took its form."""

_DEVICES = (1, 2, 4, 8, 12, 16)
_PROFILES = ("sia-placements", "sia-scalability")


@dataclass(frozen=True)
class Split:
    """A table, and the groups of jobs that are left out together.

    Args:
        name: of both.
        table: of all jobs.
        groups: of new jobs; all others are past then.
    """

    name: str
    table: Table
    groups: Mapping[str, tuple[str, ...]]


def splits(data: Path) -> list[Split]:
    """Return all splits of the public tables.

    Raises:
        StavesError: the tables are not in `data`.
    """
    gavel, sia = _gavel(data), _sia(data)
    fresh = [(source, _of_source(data, source)) for source in FRESH]
    return [
        Split("gavel, leave a job out", gavel, {job: (job,) for job in gavel}),
        Split("gavel, leave a model out", gavel, _by_model(gavel)),
        Split("sia, leave a model out", sia, _by_model(sia)),
        Split("sia at best batches, leave a model out", _at_best(sia), _by_model(_at_best(sia))),
        *(
            Split(f"{source}, leave a job out", table, {job: (job,) for job in table})
            for source, table in fresh
        ),
    ]


def _gavel(data: Path) -> Table:
    """Return Gavel's jobs of many cells, by model and batch: steps a second over all devices."""
    path = data / "gavel" / "simulation_throughputs.json.gz"
    if not path.exists():
        raise StavesError(f"{path}: no such file", hint="see --data in --help")
    contents = read_file(path).contents
    assert isinstance(contents, ThroughputTable)
    table: dict[str, dict[Cell, float]] = {}
    for one in contents.cells:
        cell = Cell(one.device_type, one.devices, one.nodes)
        table.setdefault(one.job, {})[cell] = one.throughput
    return {job: cells for job, cells in table.items() if len(cells) >= LEAST_CELLS}


def _sia(data: Path) -> Table:
    """Return Sia's and Pollux's profiles, a job for each model and batch a device: samples a
    second, of several placements of one cell the median."""
    path = data / "throughput_long.csv.gz"
    if not path.exists():
        raise StavesError(f"{path}: no such file", hint="see --data in --help")
    found: dict[str, dict[Cell, list[float]]] = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["source"] in _PROFILES and int(row["num_gpus"]) in _DEVICES:
                job = f"{row['model']} (batch size {row['batch_per_gpu']})"
                cell = Cell(row["gpu_type"], int(row["num_gpus"]), int(row["num_nodes"]))
                values = found.setdefault(job, {}).setdefault(cell, [])
                values.append(float(row["throughput"]))
    return {
        job: {cell: median(values) for cell, values in cells.items()}
        for job, cells in found.items()
    }


def _of_source(data: Path, source: str) -> Table:
    """Return the jobs of one source of the long table: each cell at its best batch."""
    contents = read_file(data / "throughput_long.csv.gz").contents
    assert isinstance(contents, ThroughputTable)
    table: dict[str, dict[Cell, float]] = {}
    for one in contents.cells:
        if one.job.startswith(f"{source}/"):
            cell = Cell(one.device_type, one.devices, one.nodes)
            table.setdefault(one.job, {})[cell] = one.throughput
    return table


def _at_best(table: Table) -> Table:
    """Return a job for each model: each cell at the batch of greatest throughput there."""
    best: dict[str, dict[Cell, float]] = {}
    for job, cells in table.items():
        of_model = best.setdefault(_model(job), {})
        for cell, throughput in cells.items():
            of_model[cell] = max(of_model.get(cell, 0.0), throughput)
    return best


def _by_model(table: Table) -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = {}
    for job in table:
        groups.setdefault(_model(job), []).append(job)
    return {model: tuple(jobs) for model, jobs in groups.items()}


def _model(job: str) -> str:
    return job.partition(" (")[0]
