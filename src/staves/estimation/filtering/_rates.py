"""The filter's belief about a job, called as policies call beliefs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError, quoted
from staves.estimation.filtering._cells import Cell
from staves.estimation.filtering._filter import CollaborativeFilter
from staves.estimation.filtering._history import Measurements

Array = NDArray[np.float64]


class FilteredRates:
    """Rates of a job over configurations (C, G), by the filter.

    Devices of one type are packed on as few nodes as hold them; between numbers of devices that the
    model knows, ln(throughput) is a line in ln(devices). Mixed devices each add what one of as many
    devices of their own type would: what the optimal split reaches where communication does not
    grow with the mix. The model needs the cells of `cells_of`.

    Args:
        model: fitted with those cells.
        measured: of the job; may be empty.
        types: of the configurations' columns, (G,).
        node_sizes: devices of a node of each type, (G,).
        caution: standard deviations of ln(throughput) to stay below the median; 0 for the median.

    Raises:
        InputError: there are not as many sizes as types, a size is below 1, or the caution is not
            finite.
    """

    def __init__(
        self,
        model: CollaborativeFilter,
        measured: Measurements,
        types: Sequence[str],
        node_sizes: Sequence[int],
        caution: float = 0.0,
    ) -> None:
        _check_sizes(types, node_sizes)
        if not math.isfinite(caution):
            raise InputError(f"caution {caution!r} must be finite", hint="0 for the median")
        prediction = model.predict(measured)
        logs = prediction.mean - caution * prediction.log_std
        self._types = tuple(types)
        self._known: list[tuple[Array, Array]] = []  # by type: numbers of devices, ln(throughput)
        for name, size in zip(types, node_sizes, strict=True):
            packed = [
                (cell.devices, log)
                for cell, log in zip(prediction.cells, logs.tolist(), strict=True)
                if cell == _packed(name, cell.devices, size)
            ]
            devices, known = np.array(packed, dtype=np.float64).reshape(-1, 2).T
            self._known.append((devices, known))

    def __call__(self, configurations: NDArray[np.int64]) -> Array:
        """Return throughput in the job's own unit, (C,); 0 for no devices.

        Raises:
            InputError: there are more devices, or fewer, than the model knows of their type.
        """
        total = configurations.sum(axis=1)
        rates = np.zeros(len(configurations))
        for g, counts in enumerate(configurations.T):
            rows = np.flatnonzero(counts)
            if len(rows):
                together = self._of_type(g, total[rows])
                rates[rows] += counts[rows] / total[rows] * together
        return rates

    def _of_type(self, g: int, devices: NDArray[np.int64]) -> Array:
        known, logs = self._known[g]
        for wanted in (devices.min(), devices.max()):
            if not (len(known) and known[0] <= wanted <= known[-1]):
                raise InputError(
                    f"the model has no cell of {wanted} {quoted(self._types[g])}",
                    hint="name it when the model is fitted: cells_of",
                )
        rates: Array = np.exp(np.interp(np.log(devices), np.log(known), logs))
        return rates


def cells_of(types: Sequence[str], node_sizes: Sequence[int], largest: int) -> list[Cell]:
    """Return the cells that `FilteredRates` needs for configurations of up to `largest` devices.

    They thin out: 1, 2, 3, 4, 6, 8, 12, ... devices, and those that just fill the first node and
    just do not fit on it.

    Raises:
        InputError: there are not as many sizes as types, or a size is below 1.
    """
    _check_sizes(types, node_sizes)
    doublings = [base << power for power in range(largest.bit_length()) for base in (1, 3)]
    return [
        _packed(name, devices, size)
        for name, size in zip(types, node_sizes, strict=True)
        for devices in sorted({*doublings, size, size + 1, largest})
        if devices <= largest
    ]


def _packed(device_type: str, devices: int, node_size: int) -> Cell:
    """Return the cell of so many devices on as few nodes as hold them."""
    return Cell(device_type, devices, -(-devices // node_size))


def _check_sizes(types: Sequence[str], node_sizes: Sequence[int]) -> None:
    if len(types) != len(node_sizes):
        raise InputError(f"{len(node_sizes)} sizes of nodes for {len(types)} types")
    if any(size < 1 for size in node_sizes):
        raise InputError("a node has a device at least", hint="correct the sizes of nodes")
