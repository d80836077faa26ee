"""The physical prediction: the step form with priors from past jobs, and a process on its errors.

A job's parameters are normal around what past jobs had; what the form does not explain is a small
Gaussian process over the cells. Both are learned by empirical Bayes: parameters of greatest
posterior density for each past job, by Gauss-Newton; then the prior from all of them and from their
uncertainties (Laplace's approximation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.estimation.filtering._cells import CellSpace
from staves.estimation.filtering._gaussian import Gaussian, Index, Row
from staves.estimation.filtering._kernel import Residual, combined, fit_variances, parts
from staves.estimation.filtering._step_form import StepForm

Array = NDArray[np.float64]

_FIRST_VARIANCES = {
    "devices": 0.01,
    "type-devices": 0.01,
    "nodes": 0.01,
    "type-nodes-devices": 0.01,
    "cell": 0.01,
}
_ERROR_FLOOR = 1e-4  # variance: of every cell's own error
_TURNS, _VARIANCE_ROUNDS, _STEPS, _LAST_STEPS = 6, 3, 6, 12
_SPREAD_STRENGTH = 3.0  # how many jobs the first spreads count for
_MEAN_STRENGTH = 1.0
_SHORTEST_STEP, _SETTLED = 1e-3, 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class PhysicalModel:
    """What the step form expects of any job.

    Args:
        form: on C cells.
        prior: of a job's parameters.
        errors: covariance of what the form does not explain, (C, C).
    """

    form: StepForm
    prior: Gaussian
    errors: Array

    def predict(self, row: Row, noise: float) -> Gaussian:
        """Return what is expected of ln(throughput) on all cells.

        Args:
            row: what was seen of the job.
            noise: variance of each measurement's error.
        """
        errors = self.errors + noise * np.eye(len(self.errors))
        parameters = _most_likely(self.form, self.prior, errors, row, self.prior.mean, _LAST_STEPS)
        expected, slopes = self.form.log_throughput(parameters)
        # The form is taken as a line around the parameters: then all is Gaussian.
        centre = expected - slopes @ (parameters - self.prior.mean)
        covariance = slopes @ self.prior.covariance @ slopes.T + self.errors
        return Gaussian(centre, covariance).given(row.cells, row.values, noise)


def learn_physical(space: CellSpace, rows: Sequence[Row]) -> PhysicalModel:
    """Return the model by past jobs.

    Args:
        space: the cells.
        rows: one for each past job, with one measurement at least.
    """
    form = StepForm(space)
    similarities = parts(space)
    variances = _FIRST_VARIANCES
    first = prior = _with_level(form, rows)
    guesses = [prior.mean] * len(rows)
    for _ in range(_TURNS if rows else 0):
        errors = _errors(similarities, variances)
        residuals, doubts = [], np.zeros_like(prior.covariance)
        for j, row in enumerate(rows):
            guesses[j] = _most_likely(form, prior, errors, row, guesses[j], _STEPS)
            expected, slopes = form.log_throughput(guesses[j], row.cells)
            left = row.values - expected + slopes @ (guesses[j] - prior.mean)
            beside = slopes @ prior.covariance @ slopes.T
            residuals.append(Residual(row.cells, left, beside))
            own = errors[np.ix_(row.cells, row.cells)]
            gain = np.linalg.solve(beside + own, slopes @ prior.covariance)
            doubts += prior.covariance - prior.covariance @ slopes.T @ gain
        variances = fit_variances(similarities, residuals, variances, _VARIANCE_ROUNDS)
        told = np.maximum(len(rows) - np.diag(doubts) / prior.variance, 0.0)
        prior = _prior_of(first, np.array(guesses), doubts)
    # Of a parameter that few jobs tell about, the mean itself is in doubt.
    doubt = np.diag(first.variance / (_MEAN_STRENGTH + told)) if rows else 0.0
    prior = Gaussian(prior.mean, prior.covariance + doubt)
    return PhysicalModel(form, prior, _errors(similarities, variances))


def _errors(similarities: dict[str, Array], variances: dict[str, float]) -> Array:
    total = combined(similarities, variances)
    return total + _ERROR_FLOOR * np.eye(len(total))


def _with_level(form: StepForm, rows: Sequence[Row]) -> Gaussian:
    """Return the form's own prior, at the median level of the rows."""
    mean = form.prior.mean.copy()
    if rows:
        expected, _ = form.log_throughput(mean)
        mean[0] -= float(np.median([np.mean(row.values - expected[row.cells]) for row in rows]))
    return Gaussian(mean, form.prior.covariance)


def _prior_of(first: Gaussian, guesses: Array, doubts: Array) -> Gaussian:
    """Return the prior of which the jobs' parameters look drawn, independent of each other."""
    jobs = len(guesses)
    mean = (_MEAN_STRENGTH * first.mean + guesses.sum(axis=0)) / (_MEAN_STRENGTH + jobs)
    spread = np.square(guesses - mean).sum(axis=0) + np.diag(doubts)
    variance = (_SPREAD_STRENGTH * first.variance + spread) / (_SPREAD_STRENGTH + jobs)
    return Gaussian(mean, np.diag(variance))


def _most_likely(
    form: StepForm, prior: Gaussian, errors: Array, row: Row, start: Array, steps: int
) -> Array:
    """Return the parameters of greatest posterior density, by Gauss-Newton with halved steps."""
    if not len(row.cells):
        return prior.mean
    cells: Index = row.cells
    weight = np.linalg.inv(errors[np.ix_(cells, cells)])
    tie = 1 / prior.variance

    def misfit(parameters: Array) -> tuple[float, Array, Array]:
        expected, slopes = form.log_throughput(parameters, cells)
        left = row.values - expected
        away = parameters - prior.mean
        return float(left @ weight @ left + tie @ away**2), left, slopes

    parameters = start
    current, left, slopes = misfit(parameters)
    for _ in range(steps):
        curvature = slopes.T @ weight @ slopes + np.diag(tie)
        pull = slopes.T @ weight @ left - tie * (parameters - prior.mean)
        step = np.linalg.solve(curvature, pull)
        length, before = 1.0, current
        while length > _SHORTEST_STEP:
            tried = parameters + length * step
            current, left, slopes = misfit(tried)
            if current <= before:
                break
            length /= 2
        else:
            return parameters
        parameters = tried
        if before - current < _SETTLED * (1 + before):
            break
    return parameters
