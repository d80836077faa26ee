"""How jobs deviate from their mean: the empirical covariance of past jobs, shrunk to the kernel.

Rows are z_j + mean, z_j ~ N(0, S). S has an inverse-Wishart prior around the ANOVA kernel, so its
mode is (strength x kernel + sum of z_j z_j^T) / (strength + jobs); what of z_j was not measured is
imputed by EM (Dempster, Laird & Rubin 1977).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from staves.estimation.filtering._cells import CellSpace
from staves.estimation.filtering._gaussian import Gaussian, Row
from staves.estimation.filtering._groups import groups_of_alike
from staves.estimation.filtering._kernel import Residual, combined, fit_variances, parts

Array = NDArray[np.float64]

_FIRST_VARIANCES = {
    "job": 2.0,
    "type": 0.05,
    "devices": 0.05,
    "devices-line": 0.05,
    "type-devices": 0.05,
    "type-devices-line": 0.05,
    "nodes": 0.05,
    "nodes-devices": 0.05,
    "type-nodes": 0.05,
    "type-nodes-devices": 0.05,
    "cell": 0.05,
}
_MEAN_VARIANCES = {
    "job": 1.0,
    "type": 1.0,
    "devices": 0.3,
    "devices-line": 0.1,
    "type-devices": 0.1,
    "type-devices-line": 0.05,
    "nodes": 0.3,
    "nodes-devices": 0.1,
    "type-nodes": 0.1,
    "type-nodes-devices": 0.05,
    "cell": 0.01,
}
"""How far the mean of all jobs may lie from `CellSpace.start`: wide beside what tables show."""

_ANY_LEVEL = 100.0
"""Variance of the level while no job has told in which units throughputs come."""

_STRENGTHS = (3.0, 10.0, 30.0, 100.0)
_GROUPS = 5
_TURNS, _VARIANCE_ROUNDS, _EM_ROUNDS, _TRIAL_ROUNDS = 3, 30, 20, 6


def learn(space: CellSpace, rows: Sequence[Row]) -> Gaussian:
    """Return what a job that has not run yet is expected to do, by past jobs.

    The covariance holds the uncertainty of the mean, too.

    Args:
        space: the cells, (C).
        rows: one for each past job, with one measurement at least.
    """
    similarities = parts(space)
    about_mean = combined(similarities, _MEAN_VARIANCES)
    if not rows:
        kernel = combined(similarities, _FIRST_VARIANCES | {"job": _ANY_LEVEL})
        return Gaussian(space.start, kernel + about_mean)
    level = float(np.median([np.mean(row.values - space.start[row.cells]) for row in rows]))
    prior = Gaussian(space.start + level, about_mean)
    mean, variances = prior.mean, _FIRST_VARIANCES
    for _ in range(_TURNS):
        residuals = [Residual(row.cells, row.values - mean[row.cells]) for row in rows]
        variances = fit_variances(similarities, residuals, variances, _VARIANCE_ROUNDS)
        kernel = combined(similarities, variances)
        mean = _mean_of_jobs(prior, kernel, rows).mean
    strength = _best_strength(prior, Gaussian(mean, kernel), rows)
    learned = _maximise(prior, Gaussian(mean, kernel), rows, strength, _EM_ROUNDS)
    doubt = _mean_of_jobs(prior, learned.covariance, rows).covariance
    return Gaussian(learned.mean, learned.covariance + doubt)


def _mean_of_jobs(prior: Gaussian, covariance: Array, rows: Sequence[Row]) -> Gaussian:
    """Return the posterior of the mean, where each job deviates from it by `covariance`."""
    precision = np.linalg.inv(prior.covariance)
    pull = np.zeros(len(precision))
    for row in rows:
        inverse = np.linalg.inv(covariance[np.ix_(row.cells, row.cells)])
        precision[np.ix_(row.cells, row.cells)] += inverse
        pull[row.cells] += inverse @ (row.values - prior.mean[row.cells])
    doubt = np.linalg.inv(precision)
    return Gaussian(prior.mean + doubt @ pull, doubt)


def _maximise(
    prior: Gaussian, start: Gaussian, rows: Sequence[Row], strength: float, rounds: int
) -> Gaussian:
    """Return mean and covariance of greatest posterior density, by EM.

    Args:
        prior: of the mean.
        start: where to begin; its covariance is the kernel.
        rows: of the jobs.
        strength: how many jobs the kernel counts for.
        rounds: of EM.
    """
    mean, covariance = start.mean, start.covariance
    jobs, tie = len(rows), np.linalg.inv(prior.covariance)
    for _ in range(rounds):
        spread = strength * start.covariance + jobs * covariance
        deviations = np.empty((jobs, len(mean)))
        for j, row in enumerate(rows):
            across = covariance[row.cells]
            gain = np.linalg.solve(across[:, row.cells], across)
            deviations[j] = (row.values - mean[row.cells]) @ gain
            spread -= across.T @ gain
        inverse = np.linalg.inv(covariance)
        shift = np.linalg.solve(
            tie + jobs * inverse,
            inverse @ deviations.sum(axis=0) - tie @ (mean - prior.mean),
        )
        mean = mean + shift
        deviations -= shift
        spread += deviations.T @ deviations
        covariance = (spread + spread.T) / (2 * (strength + jobs))
    return Gaussian(mean, covariance)


def _best_strength(prior: Gaussian, start: Gaussian, rows: Sequence[Row]) -> float:
    """Return the strength under which groups of jobs are likeliest, each by the other groups.

    Groups are of alike jobs: one model at many batches, say, would flatter a covariance that knows
    nothing of others.
    """
    groups = groups_of_alike(_deviations(start, rows), _GROUPS)
    if len(groups) < 2:
        return _STRENGTHS[1]

    def likelihood(strength: float) -> float:
        total = 0.0
        for held_out in groups:
            others = [row for j, row in enumerate(rows) if j not in held_out]
            learned = _maximise(prior, start, others, strength, _TRIAL_ROUNDS)
            total += sum(_log_density(learned, rows[j]) for j in held_out)
        return total

    return max(_STRENGTHS, key=likelihood)


def _deviations(expected: Gaussian, rows: Sequence[Row]) -> Array:
    """Return each job's expected deviations on all cells but for its level, (J, C)."""
    found = np.empty((len(rows), len(expected.mean)))
    for j, row in enumerate(rows):
        found[j] = expected.given(row.cells, row.values, _REGULAR).mean - expected.mean
    found -= found.mean(axis=1, keepdims=True)
    return found


_REGULAR = 1e-9  # the kernel has noise of its own


def _log_density(expected: Gaussian, row: Row) -> float:
    root = np.linalg.cholesky(expected.covariance[np.ix_(row.cells, row.cells)])
    scaled = np.linalg.solve(root, row.values - expected.mean[row.cells])
    return float(-0.5 * scaled @ scaled - np.log(np.diag(root)).sum())
