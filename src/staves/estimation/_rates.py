"""Rates of a job over configurations: from its lines, at even splits, or guessed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError
from staves.estimation._steps import TypeLines
from staves.steptime import even_split

LOSS = 0.03
"""The share of a device that each further one costs, where communication was never measured."""

GUESSED_STEP = 1.0
"""Seconds that a step is taken to last on one device of speed 1, before anything is measured."""

_SHORTEST = 1e-9  # seconds: of a step whose lines are all zero


@dataclass(frozen=True, eq=False)
class ProfileRates:
    """Batch over step time at the optimal split in whole samples; remembers what it was asked.

    Where communication was never measured, several devices lose `LOSS` for each further one.

    Args:
        batch: samples a step.
        lines: of every type.
    """

    batch: int
    lines: TypeLines
    _known: dict[tuple[int, ...], float] = field(default_factory=dict, repr=False)

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return samples a second, (C,), of configurations (C, G); 0 where the job cannot run."""
        rows = list(map(tuple, configurations.tolist()))
        new = list(dict.fromkeys(row for row in rows if row not in self._known))
        if new:
            table = np.array(new, dtype=np.int64).reshape(len(new), -1)
            rates = self.batch / np.maximum(self.lines.step_seconds(self.batch, table), _SHORTEST)
            if self.lines.communication is None:
                rates *= efficiency(table.sum(axis=1))
            self._known.update(zip(new, rates.tolist(), strict=True))
        return np.array([self._known[row] for row in rows], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class EvenRates:
    """Batch over step time when every device has the same share of the batch.

    What the same devices would do without uneven splits: for comparison.

    Args:
        batch: samples a step.
        lines: of every type.
    """

    batch: int
    lines: TypeLines
    _known: dict[tuple[int, ...], float] = field(default_factory=dict, repr=False)

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return samples a second, (C,), of configurations (C, G); 0 where the job cannot run."""
        return np.array([self._rate(tuple(row)) for row in configurations.tolist()])

    def _rate(self, counts: tuple[int, ...]) -> float:
        if counts not in self._known:
            self._known[counts] = self._computed(counts)
        return self._known[counts]

    def _computed(self, counts: tuple[int, ...]) -> float:
        low = sum(n * least for n, (least, _) in zip(counts, self.lines.bounds, strict=True))
        high = sum(
            n * (self.batch if most is None else most)
            for n, (_, most) in zip(counts, self.lines.bounds, strict=True)
        )
        if not any(counts) or not low <= self.batch <= high:
            return 0.0
        seconds = even_split(self.lines.model(counts), self.batch).step_seconds
        rate = self.batch / max(seconds, _SHORTEST)
        if self.lines.communication is None:
            rate *= float(efficiency(np.array(sum(counts))))
        return rate


@dataclass(frozen=True, eq=False)
class GuessedRates:
    """Rates of a job of which nothing has been measured: by the devices' speeds, less `LOSS` each.

    Args:
        batch: samples a step.
        speeds: of one device of each type, (G,).

    Raises:
        InputError: a speed is not above zero.
    """

    batch: int
    speeds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not all(speed > 0 for speed in self.speeds):
            raise InputError("relative speeds must be above zero")

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return samples a second, (C,), of configurations (C, G)."""
        together = configurations @ np.array(self.speeds)
        rates: NDArray[np.float64] = (
            self.batch / GUESSED_STEP * together * efficiency(configurations.sum(axis=1))
        )
        return rates


def efficiency(devices: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of their speed that so many devices are taken to keep together."""
    share: NDArray[np.float64] = 1 / (1 + LOSS * np.maximum(devices - 1, 0))
    return share
