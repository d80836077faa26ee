"""One table for all published throughputs: what the estimator reads as past jobs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from staves.errors import InputError
from staves.simulation._counted import Counted, Tally
from staves.simulation._csv import Row
from staves.simulation.readers._format import Source

UNKNOWN_TYPE = "name an unknown device type"
FAILED = "have no throughput: it failed, or did not fit"
NODE_SIZE = 8
"""Devices on a node, where a file does not tell."""

COLUMNS = ("job", "device_type", "devices", "nodes", "throughput")


def speed(row: Row, column: str) -> float:
    """Return the throughput in a cell; 0 where it is empty, or says nan: nothing was measured."""
    if row.cells[column].strip().lower() in ("", "nan"):
        return 0.0
    return row.number(column)


def nodes_of(devices: int, size: int = NODE_SIZE) -> int:
    """Return how many nodes of that size so many devices fill."""
    return math.ceil(devices / size)


@dataclass(frozen=True, slots=True)
class Cell:
    """A job's throughput on so many devices of one type.

    Args:
        job: what ran, with all that must be equal for two cells to be compared.
        device_type: the product's name for it.
        devices, nodes: how many in all.
        throughput: in the job's own unit.
    """

    job: str
    device_type: str
    devices: int
    nodes: int
    throughput: float


def cell_in(row: Row) -> Cell:
    """Return the cell that a line of `COLUMNS` is about; its throughput is 0 where it says none.

    Raises:
        InputError: a column is empty or no number, or there are more nodes than devices.
    """
    job, kind = row.text("job"), row.text("device_type")
    devices, nodes = row.count("devices", least=1), row.count("nodes", least=1)
    if nodes > devices:
        raise row.error("nodes", f"{nodes} nodes for {devices} devices")
    return Cell(job, kind, devices, nodes, speed(row, "throughput"))


@dataclass(frozen=True, slots=True)
class ThroughputTable:
    """Throughputs of many jobs; their units differ by job, never within one.

    Args:
        name: for reports.
        cells: one for each job, type, and number of devices and nodes.
        counted: what its reader dropped or put right.
        assumed: what the file does not say, one line each.
    """

    name: str
    cells: tuple[Cell, ...]
    counted: tuple[Counted, ...] = ()
    assumed: tuple[str, ...] = ()

    def to_csv(self) -> str:
        """Return the table as the estimator reads it: `COLUMNS`, a line for each cell."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for one in self.cells:
            writer.writerow(
                (one.job, one.device_type, one.devices, one.nodes, repr(one.throughput))
            )
        return text.getvalue()


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of a file: a cell, and what of it may differ between lines of one cell.

    Args:
        cell: the cell.
        batch: samples a device, as the file writes it; empty where it does not say.
        line: where it stands.
    """

    cell: Cell
    batch: str = ""
    line: int = 0


def table(
    source: Source, lines: Iterable[Measured], tally: Tally, assumed: tuple[str, ...] = ()
) -> ThroughputTable:
    """Return the table of `lines`: of equal cells at equal batch the median (hosts, runs), and of
    those the largest (each device has its own best batch).

    Raises:
        InputError: no cell is left.
    """
    found: dict[tuple[str, str, int, int], dict[str, list[float]]] = {}
    for one in lines:
        cell = one.cell
        key = (cell.job, cell.device_type, cell.devices, cell.nodes)
        batches = found.setdefault(key, {})
        if batches:
            again = one.batch in batches
            what = "repeat a cell: the median counts" if again else "try another batch: best counts"
            tally.note(what, one.line)
        batches.setdefault(one.batch, []).append(cell.throughput)
    if not found:
        dropped = "; ".join(str(one) for one in tally.counted())
        raise InputError(
            f"{source.path}:2: no throughput" + (f" is left: {dropped}" if dropped else ""),
            hint="the file may be cut short",
        )
    cells = tuple(
        Cell(*key, max(median(values) for values in batches.values()))
        for key, batches in found.items()
    )
    return ThroughputTable(source.name, cells, tally.counted(), assumed)
