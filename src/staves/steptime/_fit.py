"""Fit the step-time model from measurements (Cannikin, section on learning the model)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from staves.errors import InputError
from staves.steptime._model import Line

_SMALLEST_SHARE = 1e-6  # times below this share of the largest weigh no more than that


def fit_line(batches: ArrayLike, seconds: ArrayLike, prior: Line | None = None) -> Line:
    """Fit the line of one phase on one device, with neither part negative.

    The median of each distinct batch, then least squares of the relative errors, each batch
    weighted by its number of measurements.

    Args:
        batches: local batches measured, shape (m,), samples.
        seconds: the phase's time in each, shape (m,).
        prior: with one distinct batch only, the line whose ratio of fixed to per-sample time
            holds, scaled to the measurement. None: all of the time is taken to be proportional.

    Returns:
        A line without a floor.

    Raises:
        InputError: no measurement, unlike shapes, or a negative or non-finite number.
    """
    b, t = np.asarray(batches, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    if b.ndim != 1 or b.shape != t.shape:
        raise InputError(f"batches has shape {b.shape}, seconds {t.shape}; both must be (m,)")
    if not len(b):
        raise InputError("no measurement to fit a line to")
    if not np.all(np.isfinite(b) & np.isfinite(t) & (b >= 0) & (t >= 0)):
        raise InputError("a measurement is negative or not finite")
    distinct, inverse, counts = np.unique(b, return_inverse=True, return_counts=True)
    medians = np.array([np.median(t[inverse == i]) for i in range(len(distinct))])
    if len(distinct) == 1:
        return _through(float(distinct[0]), float(medians[0]), prior)
    if not medians.any():
        return Line(0.0, 0.0)
    weights = np.sqrt(counts) / np.maximum(medians, _SMALLEST_SHARE * medians.max())
    largest = float(distinct[-1])  # in units of it both columns are of one size
    design = np.column_stack([weights, weights * distinct / largest])
    from scipy.optimize import nnls  # loads for longer than many fits take

    (fixed, rise), _ = nnls(design, weights * medians)
    return Line(float(fixed), float(rise) / largest)


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


def _through(batch: float, seconds: float, prior: Line | None) -> Line:
    """Return the line of the prior's shape through one point."""
    expected = 0.0 if prior is None else prior.fixed + prior.per_sample * batch
    if prior is not None and expected > 0:
        scale = seconds / expected
        return Line(prior.fixed * scale, prior.per_sample * scale)
    return Line(0.0, seconds / batch) if batch > 0 else Line(seconds, 0.0)
