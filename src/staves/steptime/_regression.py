"""The line (or hinge) of one phase through its cells, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from staves.errors import InputError
from staves.steptime._cells import Cell
from staves.steptime._model import Line

Array = NDArray[np.float64]

SHAPE_DEVIATION = 0.2
"""How far the fixed share of a phase may lie from the one expected: one standard deviation."""
SURE = 0.1
"""A fixed share that the cells tell with a standard error below this needs no expectation."""

_SMALLEST_SHARE = 1e-6  # times below this share of the largest weigh no more than that
_SMALLEST = 1e-12  # seconds; no time is shorter
_MISFIT = 0.005  # no phase is quite a line: no cell is trusted further than this
_NOISE, _NOISE_WEIGHT = 0.05, 4.0  # relative noise before any was seen, and what that counts as
_OWN_SHAPE = 1e-4  # variance of the fixed share from device to device: none outweighs all others
_HINGE = 9.0  # a floor must better the fit by this much in chi^2: three standard deviations


@dataclass(frozen=True, slots=True)
class LineFit:
    """A fitted line with the covariance of its two parts.

    Attributes:
        line: the fit; its floor is taken as exact.
        covariance: of `fixed` with itself (s^2), with `per_sample` (s^2 a sample), and of
            `per_sample` with itself. The bounds at 0 are left out of account.
    """

    line: Line
    covariance: tuple[float, float, float]

    def deviation(self, batch: float) -> float:
        """Return the standard error of the fitted seconds at `batch` samples."""
        fixed, mixed, slope = self.covariance
        return math.sqrt(max(0.0, fixed + batch * (2 * mixed + batch * slope)))

    def interval(self, batch: float, deviations: float = 1.96) -> tuple[float, float]:
        """Return bounds of the fitted seconds at `batch`, so many standard errors either way."""
        seconds, width = self.line.seconds(batch), deviations * self.deviation(batch)
        return max(0.0, seconds - width), seconds + width


def fit_cells(cells: Sequence[Cell], expected: Line | None = None) -> LineFit:
    """Fit max(floor, fixed + per_sample x b) to cells, no part negative.

    Least squares of the relative errors. `expected` gives the share of the time that is fixed, as
    one more observation with SHAPE_DEVIATION, where the batches lie too near each other, for their
    noise, to tell it themselves (SURE). A floor is fitted from three batches on, where a hinge is
    better than a line beyond doubt.

    Args:
        cells: by ascending batch; at least one.
        expected: a line of that shape, of whatever speed: what was known of this device or its
            type, or the other devices' pooled. None: with one cell, all of the time is taken to be
            proportional.

    Raises:
        InputError: no cell.
    """
    if not cells:
        raise InputError("no measurement to fit a line to")
    table = _Table.of(cells)
    if len(cells) == 1:
        line = _through(cells[0], expected)
    elif not table.seconds.any():
        line = Line(0.0, 0.0)
    elif len(cells) == 2 and expected is not None and expected.floor > 0:
        # Two cells cannot show where the floor ends: the expected hinge, at the measured speed.
        speeds = [c.seconds / max(expected.seconds(c.batch), 1e-300) for c in cells]
        line = _scaled(expected, float(np.average(speeds, weights=table.weights)))
    else:
        share = _share(expected, table)
        if share is not None and _share_deviation(table, share) < SURE:
            share = None
        line = _hinge(table, share)
    return LineFit(line, _covariance(table))


def pooled_shape(tables: Sequence[Sequence[Cell]]) -> Line | None:
    """Return a line of the fixed share that devices have on average, weighted by how sure each is.

    None where no device has been measured at two distinct batches.
    """
    shares, weights = [], []
    batch = float(np.mean([c.batch for cells in tables for c in cells] or [1.0]))
    for cells in tables:
        if len(cells) < 2 or not any(c.seconds for c in cells):
            continue
        fit = fit_cells(cells)
        line = fit.line
        total = line.fixed + line.per_sample * batch
        if total <= 0:
            continue
        share = line.fixed / total
        shares.append(share)
        weights.append(1 / (_share_variance(fit.covariance, share, batch, total) + _OWN_SHAPE))
    if not shares:
        return None
    share = float(np.average(shares, weights=weights))
    return Line(share * batch, 1 - share) if batch > 0 else None


@dataclass(frozen=True, slots=True)
class _Table:
    """Cells as arrays (k,); `weights` are 1 / (relative variance of each cell's mean)."""

    batches: Array
    seconds: Array
    weights: Array
    size: Array  # seconds, never too near 0 to divide by

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> _Table:
        columns = np.array([[c.batch, c.seconds, c.weight, c.variance] for c in cells]).T
        batches, seconds, counts, variances = columns
        size = np.maximum(seconds, max(_SMALLEST_SHARE * seconds.max(), _SMALLEST))
        informed = np.maximum(counts - 1, 0.0)
        noise = (informed * variances / size**2).sum() + _NOISE_WEIGHT * _NOISE**2
        noise /= informed.sum() + _NOISE_WEIGHT
        return cls(batches, seconds, 1 / (noise / counts + _MISFIT**2), size)

    @property
    def centre(self) -> tuple[float, float]:
        """The weighted mean (batch, seconds)."""
        return (
            float(np.average(self.batches, weights=self.weights)),
            float(np.average(self.size, weights=self.weights)),
        )

    def beyond(self, first: int) -> _Table:
        return _Table(*(x[first:] for x in (self.batches, self.seconds, self.weights, self.size)))


def _hinge(table: _Table, share: float | None) -> Line:
    """Return the best line, or the best hinge if that is better beyond doubt."""
    best = _straight(table, share)
    least = _misfit(table, best) - _HINGE
    for flat in range(1, len(table.batches) - 1):
        own = table.weights[:flat] / table.size[:flat] ** 2
        floor = float(np.average(table.seconds[:flat], weights=own))
        rising = _straight(table.beyond(flat), share)
        hinge = Line(rising.fixed, rising.per_sample, floor)
        misfit = _misfit(table, hinge)
        if rising.fixed + rising.per_sample * table.batches[0] < floor and misfit < least:
            best, least = hinge, misfit
    return best


def _straight(table: _Table, share: float | None) -> Line:
    design, wanted = _equations(table, share)
    (fixed, rise), _ = nnls(design, wanted)
    return Line(float(fixed), float(rise) / _unit(table))


def _equations(table: _Table, share: float | None) -> tuple[Array, Array]:
    """Return rows for (fixed, per_sample x unit) of unit variance, and their right-hand side."""
    unit = _unit(table)  # in units of it both columns are of one size
    scale = np.sqrt(table.weights) / table.size
    design = np.column_stack([scale, scale * table.batches / unit])
    wanted = scale * table.seconds
    if share is not None:
        batch, seconds = table.centre
        row = np.array([1 - share, -share * batch / unit]) / (seconds * SHAPE_DEVIATION)
        design, wanted = np.vstack([design, row]), np.append(wanted, 0.0)
    return design, wanted


def _covariance(table: _Table) -> tuple[float, float, float]:
    """Return the covariance of (fixed, per_sample); one batch leaves the shape's own doubt."""
    batch, _ = table.centre
    alone = len(table.batches) == 1
    design, _ = _equations(table, (0.5 if batch > 0 else 1.0) if alone else None)
    inverse = np.linalg.pinv(design.T @ design)
    unit = _unit(table)
    return float(inverse[0, 0]), float(inverse[0, 1]) / unit, float(inverse[1, 1]) / unit**2


def _share_deviation(table: _Table, share: float) -> float:
    """Return the standard error of the fixed share that the cells alone tell."""
    batch, seconds = table.centre
    return math.sqrt(_share_variance(_covariance(table), share, batch, seconds))


def _share_variance(
    covariance: tuple[float, float, float], share: float, batch: float, total: float
) -> float:
    """Return the variance of fixed / total: d share = ((1 - share) d fixed - share batch d slope)
    / total."""
    fixed, mixed, slope = covariance
    a, b = (1 - share) / total, -share * batch / total
    return max(0.0, a * a * fixed + 2 * a * b * mixed + b * b * slope)


def _unit(table: _Table) -> float:
    return float(table.batches[-1]) or 1.0


def _misfit(table: _Table, line: Line) -> float:
    fitted = np.maximum(line.floor, line.fixed + line.per_sample * table.batches)
    return float((table.weights * ((table.seconds - fitted) / table.size) ** 2).sum())


def _share(expected: Line | None, table: _Table) -> float | None:
    """Return the share of the expected line that is fixed, at the cells' mean batch."""
    if expected is None:
        return None
    total = expected.fixed + expected.per_sample * table.centre[0]
    return expected.fixed / total if total > 0 else None


def _through(cell: Cell, expected: Line | None) -> Line:
    """Return the hinge of the expected shape through one cell."""
    seconds = 0.0 if expected is None else expected.seconds(cell.batch)
    if expected is not None and seconds > 0:
        return _scaled(expected, cell.seconds / seconds)
    return Line(0.0, cell.seconds / cell.batch) if cell.batch > 0 else Line(cell.seconds, 0.0)


def _scaled(line: Line, factor: float) -> Line:
    return Line(line.fixed * factor, line.per_sample * factor, line.floor * factor)
