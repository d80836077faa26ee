"""The running noise scale, on groups of Gaussian samples whose noise scale is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staves.convergence import NoiseScale, RunningNoiseScale, noise_scale
from staves.convergence._running import _student

DIMENSIONS = 200


def steps(
    count: int, batches: list[int], noise: float, rng: np.random.Generator, square: float = 1.0
) -> list[NoiseScale]:
    """Draw one-step estimates from group means of Gaussian gradients."""
    b = np.array(batches, dtype=float)
    mean = np.zeros(DIMENSIONS)
    mean[0] = math.sqrt(square)
    deviation = np.sqrt(noise / DIMENSIONS / b)[None, :, None]
    g = mean + deviation * rng.standard_normal((count, len(b), DIMENSIONS))
    whole = (g * (b / b.sum())[None, :, None]).sum(axis=1)
    return [
        noise_scale.estimate(b, (each**2).sum(axis=1), float((w**2).sum()))
        for each, w in zip(g, whole, strict=True)
    ]


def averaged(drawn: list[NoiseScale], batch: int, reference: int) -> RunningNoiseScale:
    running = RunningNoiseScale()
    for each in drawn:
        running.add(each, samples=batch, reference=reference)
    return running


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5), st.integers(1, 64)), min_size=2,
             max_size=30),
)  # fmt: skip
def test_averages_and_errors_are_those_of_weighted_samples(
    drawn: list[tuple[float, float, int]],
) -> None:
    running = RunningNoiseScale()
    weights, seen = np.zeros(0), 0.0
    for square, noise, batch in drawn:
        running.add(NoiseScale(square, noise), samples=batch, reference=16)
        seen += batch / 16
        theta = (1 - 1 / max(20, seen)) ** (batch / 16)
        weights = np.append(weights * max(0.9, theta), 1.0)
    g, s = np.array([d[0] for d in drawn]), np.array([d[1] for d in drawn])
    mean_g, mean_s = np.average(g, weights=weights), np.average(s, weights=weights)
    assert running.gradient_square == pytest.approx(mean_g, abs=1e-12)
    assert running.noise == pytest.approx(mean_s, abs=1e-12)
    assert running.steps == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    for got, x, y in (
        (running.square_variation, g, g), (running.noise_variation, s, s),
        (running.covariation, g, s),
    ):  # fmt: skip
        x = x - np.average(x, weights=weights)
        y = y - np.average(y, weights=weights)
        assert got == pytest.approx((weights * x * y).sum(), abs=1e-9)


@pytest.mark.parametrize("batches", [[16] * 4, [40, 12, 8, 4], [60, 4]])
@pytest.mark.parametrize("scale", [4.0, 64.0, 1000.0])
def test_the_interval_covers(batches: list[int], scale: float) -> None:
    """Of 300 runs of 60 steps, about 95 % cover; fewer than 91 % would be 3 deviations off."""
    rng = np.random.default_rng(7)
    covered, low_enough = 0, 0
    for _ in range(300):
        running = averaged(steps(60, batches, scale, rng), sum(batches), 64)
        low, high = running.interval()
        covered += low <= scale <= high
        low_enough += low <= scale
        assert low <= running.scale <= high
    assert covered >= 273
    assert low_enough >= 280


def test_the_average_settles_on_the_scale() -> None:
    running = averaged(steps(500, [40, 12, 8, 4], 50.0, np.random.default_rng(1)), 64, 64)
    assert running.scale == pytest.approx(50.0, rel=0.1)
    low, high = running.interval()
    assert 40 < low < 50 < high < 60
    assert running.usable(64) == running.scale


def test_an_unresolved_gradient_drives_nothing() -> None:
    """With |G|^2 = 0 the ratio is anything; the lower end stays near what the batch can tell."""
    rng = np.random.default_rng(3)
    unresolved = 0
    for _ in range(40):
        running = averaged(steps(60, [16] * 4, 64.0, rng, square=0.0), 64, 64)
        low, high = running.interval()
        assert running.usable(64) <= 8 * 64
        if math.isinf(high):
            unresolved += 1
            assert running.usable(64) == min(low, 8 * 64)
    assert unresolved >= 30


def test_the_scale_is_capped_by_the_largest_batch() -> None:
    running = averaged(steps(400, [512] * 8, 3000.0, np.random.default_rng(5)), 4096, 64)
    assert math.isfinite(running.interval()[1])
    assert running.usable(64) == 512
    assert running.usable(4096) == running.scale


def test_nothing_is_known_at_first() -> None:
    running = RunningNoiseScale()
    assert (running.scale, running.interval()) == (0.0, (0.0, math.inf))
    assert running.usable(10**6) == 0.0
    running.add(NoiseScale(1.0, 50.0), samples=32, reference=32)
    assert running.scale == 50.0
    assert running.usable(10**6) == 0.0


def test_documents() -> None:
    running = averaged(steps(30, [16] * 4, 50.0, np.random.default_rng(1)), 64, 64)
    assert RunningNoiseScale.from_document(running.to_document()) == running


@pytest.mark.parametrize(("freedom", "quantile"), [(4, 2.776), (9, 2.262), (30, 2.042)])
def test_student(freedom: float, quantile: float) -> None:
    assert _student(freedom) == pytest.approx(quantile, rel=0.01)
