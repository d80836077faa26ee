"""Fit the step-time model from measurements (Cannikin, section on learning the model)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from staves.errors import InputError
from staves.steptime._cells import cells_of
from staves.steptime._model import Line
from staves.steptime._regression import fit_cells


def fit_line(batches: ArrayLike, seconds: ArrayLike, prior: Line | None = None) -> Line:
    """Fit the line of one phase on one device, no part negative (`fit_cells` of its cells).

    Args:
        batches: local batches measured, shape (m,), samples.
        seconds: the phase's time in each, shape (m,).
        prior: a line whose ratio of fixed to per-sample time is expected. None: with one distinct
            batch, all of the time is taken to be proportional.

    Returns:
        A line, with a floor where three or more batches show one.

    Raises:
        InputError: no measurement, unlike shapes, or a negative or non-finite number.
    """
    return fit_cells(cells_of(batches, seconds), prior).line


def fit_communication(durations: ArrayLike) -> NDArray[np.float64]:
    """Return each bucket's seconds on the wire, shape (K,).

    The minimum over ranks of every step, since all others also wait for the slowest rank; then the
    median over steps. A minimum over the ranks' means would not do: each of them waits at times.

    Args:
        durations: seconds each rank saw each bucket take, shape (steps, ranks, K).

    Raises:
        InputError: another shape, nothing measured, or a negative or non-finite number.
    """
    seen = np.asarray(durations, dtype=np.float64)
    if seen.ndim != 3 or not seen.size:
        raise InputError(f"durations has shape {seen.shape}, not (steps, ranks, buckets)")
    if not np.all(np.isfinite(seen) & (seen >= 0)):
        raise InputError("a duration is negative or not finite")
    seconds: NDArray[np.float64] = np.median(seen.min(axis=1), axis=0)
    return seconds


def combine(means: ArrayLike, variances: ArrayLike) -> NDArray[np.float64]:
    """Combine the ranks' estimates of what they share, weighted by inverse variance.

    Args:
        means: each rank's mean, shape (ranks, ...), such as the buckets' ready shares (ranks, K).
        variances: the variance of each mean, same shape. 0 is exact: such ranks alone count; inf
            is unknown: such ranks count only where all are unknown.

    Returns:
        The combined estimates, shape (...).

    Raises:
        InputError: no rank, unlike shapes, a non-finite mean, or a negative or nan variance.
    """
    m, v = np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if m.ndim == 0 or m.shape != v.shape or not len(m):
        raise InputError(
            f"means has shape {m.shape}, variances {v.shape}; both must be (ranks, ..)"
        )
    if not np.all(np.isfinite(m)) or not np.all(v >= 0):
        raise InputError("a mean is not finite, or a variance negative or nan")
    least = v.min(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where((least > 0) & np.isfinite(least), least / v, v == least)
    combined: NDArray[np.float64] = (weights * m).sum(axis=0) / weights.sum(axis=0)
    return combined
