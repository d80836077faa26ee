"""Folders of ElasticFlow's tables as profiles: iterations a second at a fixed global batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from staves.errors import InputError
from staves.simulation._rated import RatedApplication
from staves.simulation.readers._format import open_source
from staves.simulation.readers._table import Cell
from staves.simulation.readers._throughputs import is_elasticflow, read_elasticflow


def is_folder_of_tables(path: Path) -> bool:
    """Say whether a folder holds ElasticFlow's tables: whether its first file of cells is one."""
    first = next(iter(_files(path)), None) if path.is_dir() else None
    return first is not None and is_elasticflow(open_source(first))


def read_tables(folders: Sequence[Path], pause_seconds: float) -> dict[str, RatedApplication]:
    """Read folders whose names end in a device type, one file for each model.

    Up to as many devices as a node has (8) were measured on one, more on several.

    Args:
        folders: of one or several types.
        pause_seconds: of a start or restart.

    Returns:
        By names like `bert (batch size 128)`.

    Raises:
        InputError: a file is damaged or is no such table, or two folders tell of one device type.
    """
    cells: list[Cell] = []
    told: dict[str, Path] = {}
    for folder in folders:
        for file in _files(folder):
            source = open_source(file)
            if not is_elasticflow(source):
                raise InputError(
                    f"{file}:1: is no table like its neighbours: global_batch_size,1,2,4,...",
                    hint="keep tables of one kind in a folder",
                )
            table = read_elasticflow(source)
            kind = table.cells[0].device_type
            if told.setdefault(kind, folder) != folder:
                raise InputError(
                    f"{folder}: {told[kind]} holds throughputs of {kind}, too", hint="name one"
                )
            cells += table.cells
    return rated(cells, pause_seconds)


def rated(cells: Sequence[Cell], pause_seconds: float) -> dict[str, RatedApplication]:
    """Return the applications that cells tell of, by their jobs' names."""
    found: dict[str, tuple[dict[str, dict[int, float]], dict[str, dict[int, float]]]] = {}
    for cell in cells:
        where = found.setdefault(cell.job, ({}, {}))[cell.nodes > 1]
        where.setdefault(cell.device_type, {})[cell.devices] = cell.throughput
    return {name: RatedApplication(name, *tables, pause_seconds) for name, tables in found.items()}


def _files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and path.name.removesuffix(".gz").endswith(".csv")
    )
