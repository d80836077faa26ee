"""What all jobs of one kind share: step times by type, epochs, gradient statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError
from staves.estimation import GradientStatistics
from staves.simulation._curves import StepTable

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Statistics:
    """Gradient statistics by epoch and batch, as validation runs saw them.

    Args:
        batches: global batches in ascending order, (B,); the first is the reference.
        epoch_ends: reference steps at which each epoch ends, (E,), ascending.
        gradient_square: |mean gradient|^2, (E, B).
        noise: variance of the mean gradient over a reference batch, (E, B).
    """

    batches: Array
    epoch_ends: Array
    gradient_square: Array
    noise: Array

    def gain(self, epoch: int, batch: Array) -> Array:
        """Return reference steps that one step at these batches is worth in an epoch.

        (var + sqr) / (var / scale + sqr) with scale = batch / reference: AdaScale's gain (Johnson
        et al., ICML 2020). Statistics are linear between the batches of the validation runs, and
        outside of them as at the nearest.
        """
        square = np.interp(batch, self.batches, self.gradient_square[epoch])
        noise = np.interp(batch, self.batches, self.noise[epoch])
        gained: Array = (noise + square) / (noise * (self.batches[0] / batch) + square)
        return gained

    def at(self, epoch: int, batch: float) -> GradientStatistics:
        """Return the statistics of one batch in an epoch."""
        square, noise = self.gradient_square[epoch], self.noise[epoch]
        return GradientStatistics(
            float(np.interp(batch, self.batches, square)),
            float(np.interp(batch, self.batches, noise)),
        )


@dataclass(frozen=True, eq=False)
class Application:
    """One kind of job.

    Args:
        name: as workloads name it.
        tables: step times by device type.
        statistics: epochs, and what larger batches are worth.
        pause_seconds: of a start, and of a change by checkpoint and restart.
        calibration: progress a second is divided by this.
        most_devices: devices a job may have.
        largest_local: by type, samples that a device holds at most, where less than was measured.

    Raises:
        InputError: there is no table.
    """

    name: str
    tables: Mapping[str, StepTable]
    statistics: Statistics
    pause_seconds: float = 30.0
    calibration: float = 1.0
    most_devices: int = 64
    largest_local: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        if not self.tables:
            raise InputError(
                f"{self.name}: no step times of any type", hint="add a placements file"
            )

    @property
    def reference(self) -> int:
        """The reference batch, samples."""
        return int(self.statistics.batches[0])

    @property
    def largest_batch(self) -> int:
        """The largest batch, samples."""
        return int(self.statistics.batches[-1])

    def local_limit(self, device_type: str) -> float:
        """Return the samples that one device of a type may hold, before measurements end."""
        return float((self.largest_local or {}).get(device_type, np.inf))
