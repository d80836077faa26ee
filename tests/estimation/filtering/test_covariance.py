from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from staves.estimation.filtering import Gaussian
from staves.estimation.filtering._covariance import _maximise, _mean_of_jobs
from staves.estimation.filtering._gaussian import Row
from staves.estimation.filtering._groups import groups_of_alike
from tests.estimation.filtering.worlds import covariance

seeds = st.integers(0, 2**32 - 1)


def some_rows(rng: np.random.Generator, size: int, jobs: int) -> list[Row]:
    rows = []
    for _ in range(jobs):
        cells = rng.permutation(size)[: int(rng.integers(1, size + 1))].astype(np.int64)
        rows.append(Row(cells, rng.normal(size=len(cells))))
    return rows


@given(seeds)
def test_the_mean_of_jobs_is_that_of_the_joint_normal(seed: int) -> None:
    """Oracle: mean and all jobs' measurements as one normal vector, conditioned as a whole."""
    rng = np.random.default_rng(seed)
    size, jobs = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    prior = Gaussian(rng.normal(size=size), covariance(rng, size))
    kernel = covariance(rng, size)
    rows = some_rows(rng, size, jobs)
    picks = [np.eye(size)[row.cells] for row in rows]
    pick = np.vstack(picks)
    errors = np.zeros((len(pick), len(pick)))
    at = 0
    for one in picks:
        errors[at : at + len(one), at : at + len(one)] = one @ kernel @ one.T
        at += len(one)
    values = np.concatenate([row.values for row in rows])
    total = pick @ prior.covariance @ pick.T + errors
    gain = prior.covariance @ pick.T @ np.linalg.inv(total)
    found = _mean_of_jobs(prior, kernel, rows)
    np.testing.assert_allclose(
        found.mean, prior.mean + gain @ (values - pick @ prior.mean), atol=1e-6
    )
    np.testing.assert_allclose(
        found.covariance, prior.covariance - gain @ pick @ prior.covariance, atol=1e-6
    )


@given(seeds)
@settings(max_examples=40)
def test_no_round_of_em_makes_the_history_less_likely(seed: int) -> None:
    """Oracle: the posterior density itself, up to its constant."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 6))
    prior = Gaussian(rng.normal(size=size), covariance(rng, size))
    kernel = covariance(rng, size) + 0.1 * np.eye(size)
    rows = some_rows(rng, size, int(rng.integers(1, 6)))
    strength = float(10 ** rng.uniform(0.5, 2))

    def density(found: Gaussian) -> float:
        inverse = np.linalg.inv(found.covariance)
        log_determinant = float(np.linalg.slogdet(found.covariance)[1])
        total = -0.5 * strength * (log_determinant + float(np.trace(inverse @ kernel)))
        total += float(multivariate_normal(prior.mean, prior.covariance).logpdf(found.mean))
        for row in rows:
            own = found.covariance[np.ix_(row.cells, row.cells)]
            total += float(multivariate_normal(found.mean[row.cells], own).logpdf(row.values))
        return total

    start = Gaussian(prior.mean, kernel)
    before = density(start)
    for rounds in range(1, 5):
        now = density(_maximise(prior, start, rows, strength, rounds))
        assert now >= before - 1e-6 * (1 + abs(before))
        before = now


def test_complete_tables_give_the_closed_form() -> None:
    """Where nothing is missing, the mode is (strength x kernel + scatter) / (strength + jobs)."""
    rng = np.random.default_rng(5)
    size, jobs, strength = 4, 30, 7.0
    kernel = covariance(rng, size)
    values = rng.normal(size=(jobs, size)) + 2
    rows = [Row(np.arange(size), one) for one in values]
    anywhere = Gaussian(np.zeros(size), 1e9 * np.eye(size))
    found = _maximise(anywhere, Gaussian(np.zeros(size), kernel), rows, strength, 200)
    centred = values - values.mean(axis=0)
    np.testing.assert_allclose(found.mean, values.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(
        found.covariance,
        (strength * kernel + centred.T @ centred) / (strength + jobs),
        rtol=1e-5,
        atol=1e-8,
    )


@given(seeds)
def test_groups_part_the_jobs_and_keep_equal_ones_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = rng.normal(size=(int(rng.integers(1, 6)), 3))
    labels: NDArray[np.int64] = rng.integers(0, len(kinds), int(rng.integers(1, 20)))
    groups = groups_of_alike(kinds[labels], 5)
    assert sorted(j for group in groups for j in group) == list(range(len(labels)))
    assert all(len(group) > 0 for group in groups)
    assert {frozenset(np.flatnonzero(labels == kind).tolist()) for kind in set(labels)} == set(
        groups
    )
