from __future__ import annotations

import itertools
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.errors import InputError
from staves.estimation import Point, ThroughputFit, fit_throughput
from staves.estimation._sia_fit import _Loss

seeds = st.integers(0, 2**32 - 1)


def random_fit(rng: np.random.Generator) -> ThroughputFit:
    fixed, per_sample, inter, intra = 10 ** rng.uniform((-3, -4, -2.5, -3), (-1, -2, -0.5, -1))
    growth = rng.uniform(0, 0.05, 2)
    return ThroughputFit(
        float(fixed),
        float(per_sample),
        float(inter),
        float(inter * growth[0]),
        float(intra),
        float(intra * growth[1]),
        float(rng.uniform(1, 4)),
    )


def points_of(fit: ThroughputFit, placements: list[tuple[int, int]]) -> list[Point]:
    return [
        Point(n, k, b, float(fit.compute_seconds(b)), float(fit.step_seconds(n, k, b)))
        for (n, k), b in itertools.product(placements, (8, 16, 64))
    ]


@given(seeds)
@settings(max_examples=200)
def test_step_times_follow_the_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fit = random_fit(rng)
    nodes, devices, local, passes = 2, int(rng.integers(2, 20)), int(rng.integers(1, 99)), 3
    compute = fit.fixed + fit.per_sample * local
    network = fit.inter + fit.inter_growth * (devices - 2)
    last = (compute**fit.overlap + network**fit.overlap) ** (1 / fit.overlap)
    assert fit.step_seconds(nodes, devices, local, passes) == pytest.approx(passes * compute + last)
    assert fit.step_seconds(1, 1, local) == pytest.approx(compute, rel=1e-4)


@given(seeds)
@settings(max_examples=200)
def test_the_gradient_is_that_of_the_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    devices = rng.integers(1, 17, size)
    nodes = np.minimum(devices, rng.integers(1, 4, size))
    times = 10 ** rng.uniform(-2, 0, (2, size))
    loss = _Loss(
        np.stack([nodes, devices, rng.integers(1, 65, size), times[0], times.sum(axis=0)]).T
    )
    at = np.append(10 ** rng.uniform(-2.5, -1, 6), rng.uniform(1.1, 5))
    _, gradient = loss(at)
    for index in range(7):
        step = np.zeros(7)
        step[index] = 1e-6 * at[index]
        slope = (loss(at + step)[0] - loss(at - step)[0]) / (2 * step[index])
        assert gradient[index] == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("seed", range(30))
def test_no_fit_near_by_is_much_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = points_of(random_fit(rng), [(1, 1), (1, 2), (1, 4), (2, 8), (3, 12)])
    loss = _Loss(
        np.array(
            [(p.nodes, p.devices, p.local_batch, p.compute_seconds, p.step_seconds) for p in points]
        )
    )
    found = np.array(astuple(fit_throughput(points)))
    best, _ = loss(found)
    assert best <= loss(np.array([*(0.1, 0.01) * 3, 1.001]))[0]  # where the search begins
    for _ in range(30):
        other = found * np.exp(rng.normal(0, 0.05, 7))
        other[6] = np.clip(other[6], 1, 10)
        assert loss(other)[0] >= best - 0.1


def test_between_batches_that_were_seen_alone_steps_are_predicted() -> None:
    truth = ThroughputFit(0.02, 0.002, 0.03, 0.0005, 0.01, 0.0002, 1.5)
    found = fit_throughput(points_of(truth, [(1, 1)]))
    for local in (8, 12, 32, 64):
        assert found.step_seconds(1, 1, local) == pytest.approx(
            truth.step_seconds(1, 1, local), rel=0.02
        )


def test_what_no_point_tells_is_hopeful() -> None:
    alone = fit_throughput([Point(1, 1, 32, 0.4, 0.4)])
    assert alone.fixed == pytest.approx(0.2)  # half of the only local batch
    assert alone.compute_seconds(32) == pytest.approx(0.4, rel=1e-3)
    assert alone.step_seconds(2, 8, 32) == pytest.approx(0.4, rel=1e-3)  # no network at all
    together = fit_throughput([Point(1, 1, 32, 0.4, 0.4), Point(1, 2, 32, 0.4, 0.6)])
    assert together.inter >= 1.1 * together.intra > 0.0
    assert together.intra_growth < 1e-6


def test_fits_do_not_depend_on_what_was_fitted_before() -> None:
    points = points_of(random_fit(np.random.default_rng(3)), [(1, 1), (1, 2)])
    first = fit_throughput(points)
    fit_throughput(points[:2])
    assert fit_throughput(iter(points)) == first


@pytest.mark.parametrize(
    "points",
    [[], [Point(1, 1, 32, 0.0, 0.1)], [Point(0, 1, 32, 0.1, 0.1)], [Point(1, 1, 8, 0.1, np.nan)]],
)
def test_points_that_are_none_are_refused(points: list[Point]) -> None:
    with pytest.raises(InputError):
        fit_throughput(points)
