"""What is believed of one job's throughput on many cells."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError
from staves.estimation.filtering._cells import Cell

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """ln(throughput) of a job on cells, each normal.

    Args:
        cells: C of them.
        mean: of ln(throughput), (C,), in the job's own unit.
        variance: of it, (C,).
    """

    cells: tuple[Cell, ...]
    mean: Array
    variance: Array

    @property
    def throughput(self) -> Array:
        """The median throughput of each cell, (C,)."""
        throughput: Array = np.exp(self.mean)
        return throughput

    @property
    def log_std(self) -> Array:
        """Standard deviation of ln(throughput), (C,)."""
        deviation: Array = np.sqrt(self.variance)
        return deviation

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Return the bounds between which each throughput lies with that probability, each (C,).

        Raises:
            InputError: the level is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise InputError(f"level {level!r} must be between 0 and 1", hint="like 0.9")
        width = NormalDist().inv_cdf((1 + level) / 2) * self.log_std
        return np.exp(self.mean - width), np.exp(self.mean + width)
