"""What is known and what is asked of new jobs: the estimator's layout, questions included."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from staves.simulation._csv import read_rows
from staves.simulation.readers._table import COLUMNS, Cell, cell_in


@dataclass(frozen=True, slots=True)
class Sheet:
    """A file's rows in its own order.

    Args:
        measured: rows with a throughput above zero; one cell may stand there several times.
        asked: rows without one; their throughput is 0.
        failed: rows whose throughput is 0: it did not run there.
    """

    measured: tuple[Cell, ...]
    asked: tuple[Cell, ...]
    failed: tuple[Cell, ...]


def read_sheet(path: Path) -> Sheet:
    """Read a file with the columns `COLUMNS`, whose empty throughputs are questions.

    Raises:
        InputError: it cannot be read, lacks a column, or holds a cell that is none.
    """
    measured, asked, failed = [], [], []
    for row in read_rows(path, COLUMNS):
        cell = cell_in(row)
        if cell.throughput:
            measured.append(cell)
        elif row.cells["throughput"].strip().lower() in ("", "nan"):
            asked.append(cell)
        else:
            failed.append(cell)
    return Sheet(tuple(measured), tuple(asked), tuple(failed))
