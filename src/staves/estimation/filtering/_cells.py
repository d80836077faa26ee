"""The cells of a throughput table: so many devices of one type on so many nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError, quoted
from staves.hardware import peak_teraflops

Array = NDArray[np.float64]

_UNKNOWN_PEAK = 15.0
"""Teraflops of a type of which nothing is known, beside none that is known."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One column of the table: devices of one type.

    Args:
        device_type: its name.
        devices: how many in all.
        nodes: how many nodes they stand on.

    Raises:
        InputError: there is no device or no node, or there are more nodes than devices.
    """

    device_type: str
    devices: int
    nodes: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= self.devices:
            raise InputError(
                f"{quoted(self.device_type)}: {self.devices} devices on {self.nodes} nodes",
                hint="at least one of each, and no node without a device",
            )


class CellSpace:
    """All cells that a model speaks of, and their features, each of shape (C,).

    Args:
        cells: in any order, repeated or not.

    Attributes:
        cells: each once, in order.
        types: names of their device types, in order.
        type_index: of each cell's type.
        log_peak: ln(teraflops) of each type's peak in 32-bit arithmetic, (T,).
        devices, nodes: of each cell.
        start: ln(throughput) as it is taken to be before any job has run, but for the job's own
            level: proportional to the devices and to their peak in 32-bit arithmetic.
    """

    def __init__(self, cells: Iterable[Cell]) -> None:
        self.cells = tuple(sorted(set(cells)))
        self.types = tuple(sorted({cell.device_type for cell in self.cells}))
        place = {name: i for i, name in enumerate(self.types)}
        self.type_index = np.array([place[cell.device_type] for cell in self.cells], dtype=np.int64)
        self.devices: Array = np.array([cell.devices for cell in self.cells], dtype=np.float64)
        self.nodes: Array = np.array([cell.nodes for cell in self.cells], dtype=np.float64)
        self.log_peak = _log_peaks(self.types)
        self.start: Array = np.log(self.devices) + self.log_peak[self.type_index]
        self._index = {cell: i for i, cell in enumerate(self.cells)}

    def __len__(self) -> int:
        return len(self.cells)

    def __contains__(self, cell: Cell) -> bool:
        return cell in self._index

    def index(self, cells: Iterable[Cell]) -> NDArray[np.int64]:
        """Return where the cells stand.

        Raises:
            InputError: one is not among them.
        """
        try:
            return np.array([self._index[cell] for cell in cells], dtype=np.int64)
        except KeyError as error:
            raise InputError(
                f"the model has no cell {error.args[0]}", hint="name it when the model is fitted"
            ) from None


def _log_peaks(types: tuple[str, ...]) -> Array:
    """Return ln(teraflops) of each type; of one that is not known the geometric mean of others."""
    known = {name: peak_teraflops(name.lower()) for name in types}
    logs = [math.log(peak) for peak in known.values() if peak is not None]
    middle = sum(logs) / len(logs) if logs else math.log(_UNKNOWN_PEAK)
    return np.array(
        [middle if peak is None else math.log(peak) for peak in known.values()], dtype=np.float64
    )
