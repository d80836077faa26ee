from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from staves.estimation.filtering import Gaussian
from tests.estimation.filtering.worlds import covariance

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_conditioning_is_the_block_of_the_joint_precision(seed: int) -> None:
    """Oracle: the joint normal of the parts and their noisy measurements, inverted as a whole."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 8))
    known = rng.permutation(size)[: int(rng.integers(0, size + 1))].astype(np.int64)
    noise = float(10 ** rng.uniform(-3, 0))
    before = Gaussian(rng.normal(size=size), covariance(rng, size))
    values = rng.normal(size=len(known))
    pick = np.eye(size)[known]
    joint = np.block(
        [
            [before.covariance, before.covariance @ pick.T],
            [pick @ before.covariance, pick @ before.covariance @ pick.T],
        ]
    )
    joint[size:, size:] += noise * np.eye(len(known))
    precision = np.linalg.inv(joint)
    expected_covariance = np.linalg.inv(precision[:size, :size])
    away = values - before.mean[known]
    expected_mean = before.mean - expected_covariance @ precision[:size, size:] @ away
    after = before.given(known, values, noise)
    np.testing.assert_allclose(after.mean, expected_mean, atol=1e-7)
    np.testing.assert_allclose(after.covariance, expected_covariance, atol=1e-7)


@given(seeds)
def test_one_by_one_is_as_good_as_all_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 8))
    known = rng.permutation(size)[: int(rng.integers(1, size + 1))].astype(np.int64)
    before = Gaussian(rng.normal(size=size), covariance(rng, size))
    values = rng.normal(size=len(known))
    step = before
    for k in range(len(known)):
        step = step.given(known[k : k + 1], values[k : k + 1], 0.1)
    whole = before.given(known, values, 0.1)
    np.testing.assert_allclose(step.mean, whole.mean, atol=1e-9)
    np.testing.assert_allclose(step.covariance, whole.covariance, atol=1e-9)
