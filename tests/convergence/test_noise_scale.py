from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.convergence import NoiseScale, noise_scale

# The splits of Cannikin's Monte-Carlo table: local batches, tr(Sigma), |G|^2 = 1.
CASES = [
    ((48, 32, 24, 24), 128.0),
    ((200, 30, 16, 10), 256.0),
    ((200, 30, 16, 10), 25_600.0),
    ((200, 30, 16, 10), 2.56),
    ((120,) * 4 + (60,) * 4 + (20,) * 8, 5000.0),
    ((90, 10), 1000.0),
]
DIMENSIONS, DRAWS, AT_ONCE = 1000, 1500, 50


@pytest.mark.parametrize(("split", "trace"), CASES)
def test_unbiased_and_of_least_variance(split: tuple[int, ...], trace: float) -> None:
    rng = np.random.default_rng(len(split))
    b = np.array(split, dtype=float)
    total, groups = b.sum(), len(b)
    mean = np.zeros(DIMENSIONS)
    mean[0] = 1.0
    variance = trace / DIMENSIONS  # of each coordinate of one sample's gradient
    deviations = np.sqrt(variance / b)[None, :, None]
    drawn = []
    for _ in range(DRAWS // AT_ONCE):
        g = mean + deviations * rng.standard_normal((AT_ONCE, groups, DIMENSIONS))
        local = (g**2).sum(axis=2)
        whole = ((g * (b / total)[None, :, None]).sum(axis=1) ** 2).sum(axis=1)
        drawn += [noise_scale.estimate(b, x, float(w)) for x, w in zip(local, whole, strict=True)]
    squares = np.array([d.gradient_square for d in drawn])
    noises = np.array([d.noise for d in drawn])
    for values, expected in ((squares, 1.0), (noises, trace)):
        assert abs(values.mean() - expected) <= 3 * values.std() / math.sqrt(DRAWS)
    alpha, beta = 4 * variance, 2 * trace**2 / DIMENSIONS
    assert noises.var() == pytest.approx(beta / (groups - 1), rel=0.15)
    expected = alpha / total + groups * beta / ((groups - 1) * total**2)
    assert squares.var() == pytest.approx(expected, rel=0.15)


def covariance(b: np.ndarray, alpha: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Covariances of the pairwise estimates S_i and G_i, propagated from those of the norms."""
    total, n = b.sum(), len(b)
    norms = np.zeros((n + 1, n + 1))  # of |g_1|^2 .. |g_n|^2, |g|^2
    whole = alpha / total + beta / total**2
    norms[-1] = norms[:, -1] = whole
    norms[np.arange(n), np.arange(n)] = alpha / b + beta / b**2
    scale = b * total / (total - b)
    noise = np.hstack([np.diag(scale), -scale[:, None]])
    square = np.hstack([np.diag(-b / (total - b)), (total / (total - b))[:, None]])
    return noise @ norms @ noise.T, square @ norms @ square.T


@given(
    st.lists(st.integers(1, 500), min_size=2, max_size=8),
    st.floats(0.01, 100),
    st.floats(0.01, 100),
    st.integers(0, 2**32 - 1),
)
def test_is_the_best_linear_unbiased_combination(
    split: list[int], alpha: float, beta: float, seed: int
) -> None:
    b = np.array(split, dtype=float)
    total, n = b.sum(), len(b)
    rng = np.random.default_rng(seed)
    local, whole = rng.uniform(0.5, 2, n), rng.uniform(0.1, 1)
    noises = b * total / (total - b) * (local - whole)
    squares = (total * whole - b * local) / (total - b)
    result = noise_scale.estimate(split, local, whole)
    for pairwise, cov, value in zip(
        (noises, squares), covariance(b, alpha, beta), (result.noise, result.gradient_square),
        strict=True,
    ):  # fmt: skip
        weights = (total - b) / ((n - 1) * total)
        assert weights.sum() == pytest.approx(1)
        assert value == pytest.approx(weights @ pairwise, rel=1e-9, abs=1e-9)
        # Least variance among weights of sum 1: cov @ weights is the same for every pair.
        gradient = cov @ weights
        assert gradient == pytest.approx(gradient.mean(), rel=1e-6, abs=1e-9 * np.abs(cov).max())


def test_equal_groups_give_the_plain_mean() -> None:
    result = noise_scale.estimate([16, 16], [1.5, 1.1], 1.0)
    assert result.noise == pytest.approx(32 * 0.3)
    assert result.gradient_square == pytest.approx(0.7)
    assert result.scale == pytest.approx(32 * 0.3 / 0.7)


def test_scale_is_infinite_where_the_gradient_drowns() -> None:
    assert noise_scale.estimate([1, 1], [4.0, 4.0], 1.0).scale == math.inf
    assert NoiseScale(0.0, 1.0).scale == math.inf
    assert NoiseScale(-1.0, 1.0).scale == math.inf


@pytest.mark.parametrize(
    ("batches", "local", "whole"),
    [
        ([], [], 1.0),
        ([4], [1.0], 1.0),
        ([4, 0], [1.0, 1.0], 1.0),
        ([4, -1], [1.0, 1.0], 1.0),
        ([4, math.nan], [1.0, 1.0], 1.0),
        ([4, 4], [1.0, math.inf], 1.0),
        ([4, 4], [1.0, math.nan], 1.0),
        ([4, 4], [1.0, 1.0], math.nan),
        ([4, 4], [1.0, -1.0], 1.0),
        ([4, 4], [1.0, 1.0], -1.0),
        ([4, 4], [1.0], 1.0),
        ([[4, 4]], [[1.0, 1.0]], 1.0),
    ],
)
def test_refuses_what_gives_no_estimate(batches: object, local: object, whole: float) -> None:
    with pytest.raises(ValueError):
        noise_scale.estimate(batches, local, whole)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("batches", "local", "whole"),
    [
        (None, [1.0, 1.0], 1.0),
        ([4, 4], None, 1.0),
        ([4, 4], [1.0, 1.0], None),
        ([4, None], [1.0, 1.0], 1.0),
        (["1", "2"], [1.0, 1.0], 1.0),
        ([4, 4], ["1", "2"], 1.0),
        ([4, 4], [1.0, 1.0], "1"),
        ("44", [1.0, 1.0], 1.0),
        ([4, 4], [1.0, 1.0], [1.0]),
        ([4, 4], [1.0, 1.0], []),
        ([4, 4], [1j, 1.0], 1.0),
        ([4, 4], [1.0, 1.0], 1j),
        ([4, 4], np.array([1.0, 1.0], dtype=object), 1.0),
        ([10**400, 4], [1.0, 1.0], 1.0),
        ([4, 4], [10**400, 1.0], 1.0),
        ([4, 4], [1.0, 1.0], 10**400),
        ([4, [4]], [1.0, 1.0], 1.0),
        ([4, 4], [[1.0], 1.0], 1.0),
        ([True, True], [1.0, 1.0], 1.0),
        ([0.5, 1.5], [1.0, 1.0], 1.0),
        ([1e308, 1e308], [1.0, 1.0], 1.0),
        ([1, 1], [1e308, 1e308], 1e308),
        ([4, 4], [1e308, 1e308], 1e308),
        ([2, 2], [1.0, 1.0], 1.7e308),
    ],
)
def test_refuses_what_is_no_number_or_too_large(
    batches: object, local: object, whole: object
) -> None:
    with pytest.raises(ValueError):
        noise_scale.estimate(batches, local, whole)  # type: ignore[arg-type]


def test_takes_any_real_numbers() -> None:
    expected = noise_scale.estimate([16, 16], [1.5, 1.25], 1.0)
    for kind in (np.float16, np.float32, np.longdouble, np.float64):
        local = np.array([1.5, 1.25], dtype=kind)
        assert noise_scale.estimate(np.array([16, 16]), local, local[1] * 0 + 1) == expected
    assert noise_scale.estimate([16.0, 16.0], (1.5, 1.25), 1) == expected


@given(
    st.lists(st.tuples(st.integers(1, 500), st.floats(0.1, 10)), min_size=2, max_size=8),
    st.floats(0.01, 10),
)
def test_sums_are_all_it_needs(groups: list[tuple[int, float]], whole: float) -> None:
    batches, norms = [b for b, _ in groups], [n for _, n in groups]
    weighted = sum(b * n for b, n in groups)
    result = noise_scale.from_sums(weighted, len(groups), sum(batches), whole)
    expected = noise_scale.estimate(batches, norms, whole)
    assert result.noise == pytest.approx(expected.noise, abs=1e-9)
    assert result.gradient_square == pytest.approx(expected.gradient_square, abs=1e-9)


@pytest.mark.parametrize(
    "sums", [(1.0, 1, 8.0, 1.0), (1.0, 2, 0.0, 1.0), (-1.0, 2, 8.0, 1.0), (1.0, 2, 8.0, -1.0),
             (math.nan, 2, 8.0, 1.0), (1.0, 2, 8.0, math.inf), (1e308, 2, 1e308, 1e308)]
)  # fmt: skip
def test_refuses_sums_that_give_no_estimate(sums: tuple[float, int, float, float]) -> None:
    with pytest.raises(ValueError):
        noise_scale.from_sums(*sums)
