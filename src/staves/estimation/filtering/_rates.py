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
        # By type: numbers of devices, ln(throughput), and its standard deviation.
        self._known: list[tuple[Array, Array, Array]] = []
        for name, size in zip(types, node_sizes, strict=True):
            packed = [
                (cell.devices, log, deviation)
                for cell, log, deviation in zip(
                    prediction.cells, logs.tolist(), prediction.log_std.tolist(), strict=True
                )
                if cell == _packed(name, cell.devices, size)
            ]
            devices, known, deviations = np.array(packed, dtype=np.float64).reshape(-1, 3).T
            self._known.append((devices, known, deviations))

    def __call__(self, configurations: NDArray[np.int64]) -> Array:
        """Return throughput in the job's own unit, (C,); 0 for no devices.

        Raises:
            InputError: there are more devices, or fewer, than the model knows of their type.
        """
        rates: Array = self._parts(configurations)[0].sum(axis=1)
        return rates

    def log_std(self, configurations: NDArray[np.int64]) -> Array:
        """Return the standard deviation of ln(throughput), (C,); 0 for no devices.

        That of mixed devices is as if their types erred alike: the mean of the types' own, weighed
        by their shares of the throughput.

        Raises:
            InputError: as for rates.
        """
        parts, deviations = self._parts(configurations)
        together = parts.sum(axis=1)
        weighed: Array = (parts * deviations).sum(axis=1) / np.where(together > 0, together, 1.0)
        return weighed

    def _parts(self, configurations: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return what each type adds, (C, G), and the deviations of ln of it, (C, G)."""
        total = configurations.sum(axis=1)
        parts, deviations = np.zeros(configurations.shape), np.zeros(configurations.shape)
        for g, counts in enumerate(configurations.T):
            rows = np.flatnonzero(counts)
            if len(rows):
                together, deviation = self._of_type(g, total[rows])
                parts[rows, g] = counts[rows] / total[rows] * together
                deviations[rows, g] = deviation
        return parts, deviations

    def _of_type(self, g: int, devices: NDArray[np.int64]) -> tuple[Array, Array]:
        known, logs, deviations = self._known[g]
        for wanted in (devices.min(), devices.max()):
            if not (len(known) and known[0] <= wanted <= known[-1]):
                raise InputError(
                    f"the model has no cell of {wanted} {quoted(self._types[g])}",
                    hint="name it when the model is fitted: cells_of",
                )
        at, between = np.log(devices), np.log(known)
        return np.exp(np.interp(at, between, logs)), np.interp(at, between, deviations)


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
