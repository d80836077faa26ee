"""A job's rates by its own lines where it was measured, and by past jobs elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from staves.estimation._profile import JobProfile
from staves.estimation.filtering import (
    Cell,
    CollaborativeFilter,
    FilteredRates,
    Measured,
    Measurements,
)

Array = NDArray[np.float64]

LINES_LOG_STD = 0.05
"""Standard deviation of ln(throughput) by the lines of types that were measured: what the optimal
split's step time is off by."""


class InformedRates:
    """Rates of a job over configurations (C, G), with the filter where the step-time model is mute.

    * Lines and communication are known: rates are those of the lines at the optimal split. A type
      without lines has those of the nearest measured one, scaled by the filter's ratio of one
      device's throughputs, which is this job's own.
    * Lines are known, but it has not run on several devices: the filter's rates, wherever the lines
      say that the job can run at all.
    * Nothing is known: the filter's rates.

    Args:
        profile: what the job itself has shown.
        model: fitted with `cells_of(types, node_sizes, ...)`.
        measured: of the job; may be empty.
        types: of the configurations' columns, (G,).
        node_sizes: devices of a node of each type, (G,).

    Raises:
        InputError: as `FilteredRates`.
    """

    def __init__(
        self,
        profile: JobProfile,
        model: CollaborativeFilter,
        measured: Measurements,
        types: Sequence[str],
        node_sizes: Sequence[int],
    ) -> None:
        self._unit, in_unit = _in_the_unit_of(model, measured)
        self._filtered = FilteredRates(model, in_unit, types, node_sizes)
        alone = np.eye(len(types), dtype=np.int64)
        self._speeds = self._unit * self._filtered(alone)
        speeds = dict(zip(types, self._speeds.tolist(), strict=True))
        self._by_lines = profile.rates(types, speeds) if profile.lines else None
        self._together = profile.communication is not None
        own = np.array([name in profile.measured for name in types])
        self._log_std: Array = np.where(own, LINES_LOG_STD, self._filtered.log_std(alone))

    def __call__(self, configurations: NDArray[np.int64]) -> Array:
        """Return samples a second, (C,); 0 where the job cannot run.

        Raises:
            InputError: there are more devices than the model knows.
        """
        if self._by_lines is None:
            return self._unit * self._filtered(configurations)
        rates = self._by_lines(configurations)
        if self._together:
            return rates
        return np.where(rates > 0, self._unit * self._filtered(configurations), 0.0)

    def log_std(self, configurations: NDArray[np.int64]) -> Array:
        """Return the standard deviation of ln(rate), (C,); 0 for no devices.

        Raises:
            InputError: as for rates.
        """
        if not self._together:
            return self._filtered.log_std(configurations)
        shares = configurations * self._speeds
        together = shares.sum(axis=1)
        weighed: Array = shares @ self._log_std / np.where(together > 0, together, 1.0)
        return weighed


def _in_the_unit_of(
    model: CollaborativeFilter, measured: Measurements
) -> tuple[float, dict[Cell, Measured]]:
    """Return what a job was measured at, at the level of past jobs, and what one of its units is.

    Samples are as large as each job's are. Were past jobs alike in that, one whose samples are much
    smaller would else be taken for slow wherever it has not been measured.
    """
    known = {cell: one for cell, one in measured.items() if cell in model.space}
    if not known:
        return 1.0, {}
    expected = model.jobs.mean[model.space.index(known)]
    level = float(np.mean([one.log_throughput for one in known.values()] - expected))
    shifted = {
        cell: Measured(one.log_throughput - level, one.rounds) for cell, one in known.items()
    }
    return math.exp(level), shifted


def worth_measuring(
    model: CollaborativeFilter, measured: Measurements, types: Sequence[str], cost: float
) -> tuple[str, ...]:
    """Return the types on which one device is worth a probe, the one that tells most first.

    Each is chosen as if those before it had been measured, until the stopping rule of
    `filtering.choose_probe` says that enough is known.

    Args:
        model: that has a cell of one device of each.
        measured: of the job.
        types: on which it could be measured.
        cost: of one probe, as a share of the job's remaining time.

    Raises:
        InputError: the model lacks a type, or the cost is negative or not finite.
    """
    cells = [Cell(name, 1) for name in types]
    known, chosen = dict(measured), []
    while (probe := model.next_probe(known, cells, cost)) is not None and not probe.stop:
        chosen.append(probe.cell.device_type)
        known[probe.cell] = Measured(0.0)  # how sure the others become depends on no value
    return tuple(chosen)
