"""The filter's belief about a job, called as policies call beliefs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError
from staves.estimation.filtering._cells import Cell
from staves.estimation.filtering._filter import CollaborativeFilter
from staves.estimation.filtering._history import Measurements

Array = NDArray[np.float64]


class FilteredRates:
    """Rates of a job over configurations (C, G), by the filter.

    Devices of one type are packed on as few nodes as hold them. Mixed devices each add what one of
    as many devices of their own type would: what the optimal split reaches where communication does
    not grow with the mix. Which nodes a model must know is `cells_of`.

    Args:
        model: fitted with those cells.
        measured: of the job; may be empty.
        types: of the configurations' columns, (G,).
        node_sizes: devices of a node of each type, (G,).
        caution: standard deviations of ln(throughput) to stay below the median; 0 for the median.
    """

    def __init__(
        self,
        model: CollaborativeFilter,
        measured: Measurements,
        types: Sequence[str],
        node_sizes: Sequence[int],
        caution: float = 0.0,
    ) -> None:
        if len(types) != len(node_sizes):
            raise InputError(f"{len(node_sizes)} sizes of nodes for {len(types)} types")
        if not math.isfinite(caution):
            raise InputError(f"caution {caution!r} must be finite", hint="0 for the median")
        self._types, self._sizes = tuple(types), tuple(node_sizes)
        prediction = model.predict(measured)
        cautious = np.exp(prediction.mean - caution * prediction.log_std)
        self._rate: dict[Cell, float] = dict(zip(prediction.cells, cautious.tolist(), strict=True))

    def __call__(self, configurations: NDArray[np.int64]) -> Array:
        """Return throughput in the job's own unit, (C,); 0 for no devices.

        Raises:
            InputError: the model lacks a cell that this takes.
        """
        rates = np.zeros(len(configurations))
        for row, counts in enumerate(configurations.tolist()):
            total = sum(counts)
            for g, count in enumerate(counts):
                if count:
                    rates[row] += count / total * self._of_type(g, total)
        return rates

    def _of_type(self, g: int, devices: int) -> float:
        cell = packed(self._types[g], devices, self._sizes[g])
        try:
            return self._rate[cell]
        except KeyError:
            raise InputError(
                f"the model has no cell {cell}", hint="name it when the model is fitted"
            ) from None


def packed(device_type: str, devices: int, node_size: int) -> Cell:
    """Return the cell of so many devices on as few nodes as hold them."""
    return Cell(device_type, devices, -(-devices // node_size))


def cells_of(types: Sequence[str], node_sizes: Sequence[int], largest: int) -> list[Cell]:
    """Return the cells that configurations of up to `largest` devices take."""
    return [
        packed(name, devices, size)
        for name, size in zip(types, node_sizes, strict=True)
        for devices in range(1, largest + 1)
    ]
