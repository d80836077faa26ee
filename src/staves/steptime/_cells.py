"""What has been measured of one phase on one device, in a table that never grows large.

A cell holds all measurements at one local batch: how many, their typical time, their variance.
These are enough for a line or a hinge through them, so a job's whole past is a few cells a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from staves.errors import InputError

MEMORY = 200.0
"""Measurements that one cell counts as at most: older ones fade as new ones come."""
HALF_LIFE = 1000.0
"""Measurements at other batches after which a cell counts half as much."""
KEPT_WEIGHT = 3.0
"""What a cell keeps however old it is: it alone may tell fixed time from time a sample."""
CELLS = 24
"""Cells kept of a phase; the least and the largest batch always are."""
_TRIM = 0.2  # share of the measurements left out at either end


@dataclass(frozen=True, slots=True)
class Cell:
    """The measurements at one local batch.

    Args:
        batch: samples.
        weight: measurements that it counts as.
        seconds: their typical time.
        variance: of one measurement, seconds squared.

    Raises:
        InputError: a number is negative or not finite, or the weight 0.
    """

    batch: float
    weight: float
    seconds: float
    variance: float

    def __post_init__(self) -> None:
        numbers = (self.batch, self.weight, self.seconds, self.variance)
        if not all(np.isfinite(numbers)) or min(numbers) < 0 or self.weight == 0:
            raise InputError(
                f"a cell of {self.batch} samples, weight {self.weight}, {self.seconds} s and"
                f" variance {self.variance} is none"
            )


def cells_of(batches: ArrayLike, seconds: ArrayLike) -> tuple[Cell, ...]:
    """Return the cells of single measurements, by ascending batch.

    The typical time is a trimmed mean (a fifth at either end left out), the variance that of a
    normal law with the same median absolute deviation: a few wild measurements move neither.

    Args:
        batches: local batches, shape (m,), samples.
        seconds: the phase's time in each, shape (m,).

    Raises:
        InputError: unlike shapes, or a negative or non-finite number.
    """
    b, t = np.asarray(batches, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    if b.ndim != 1 or b.shape != t.shape:
        raise InputError(f"batches has shape {b.shape}, seconds {t.shape}; both must be (m,)")
    if not np.all(np.isfinite(b) & np.isfinite(t) & (b >= 0) & (t >= 0)):
        raise InputError("a measurement is negative or not finite")
    cells = []
    for batch in np.unique(b):
        own = np.sort(t[b == batch])
        cells.append(Cell(float(batch), float(len(own)), typical(own), robust_variance(own)))
    return tuple(cells)


def typical(seconds: NDArray[np.float64]) -> float:
    """Return the mean of the middle three fifths of shape (m,), m >= 1."""
    ordered = np.sort(seconds)
    left_out = int(_TRIM * len(ordered) + 0.5)
    return float(ordered[left_out : len(ordered) - left_out].mean())


def robust_variance(seconds: NDArray[np.float64]) -> float:
    """Return the variance of a normal law with the median absolute deviation of shape (m,)."""
    return float((1.4826 * np.median(np.abs(seconds - np.median(seconds)))) ** 2)


def merge(older: Sequence[Cell], newer: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return the cells of older and newer measurements together; the older ones fade.

    A cell counts as MEMORY measurements at most. Cells at other batches lose half their weight in
    HALF_LIFE measurements, but never the last KEPT_WEIGHT: a long run at one batch would else
    forget the slope.
    """
    fading = 0.5 ** (sum(cell.weight for cell in newer) / HALF_LIFE)
    table = {
        cell.batch: replace(cell, weight=max(min(cell.weight, KEPT_WEIGHT), fading * cell.weight))
        for cell in older
    }
    for cell in newer:
        before = table.get(cell.batch)
        table[cell.batch] = cell if before is None else _together(before, cell)
    cells = sorted(table.values(), key=lambda cell: cell.batch)
    while len(cells) > CELLS:
        cells.remove(min(cells[1:-1], key=lambda cell: cell.weight))
    return tuple(cells)


def pool(tables: Sequence[Sequence[Cell]]) -> tuple[Cell, ...]:
    """Return the cells of several devices of one type as if they were one device's."""
    pooled: tuple[Cell, ...] = ()
    for table in tables:
        pooled = merge(pooled, table)
    return pooled


def _together(older: Cell, newer: Cell) -> Cell:
    """Return both cells of one batch as one; the older gives way beyond MEMORY."""
    new = min(newer.weight, MEMORY)
    old = min(older.weight, MEMORY - new)
    total = old + new
    return Cell(
        newer.batch,
        total,
        (old * older.seconds + new * newer.seconds) / total,
        (old * older.variance + new * newer.variance) / total,
    )
