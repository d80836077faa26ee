from __future__ import annotations

import math

import numpy as np
import pytest

from staves.errors import InputError
from staves.steptime import Line, combine, fit_communication, fit_line


def test_recovers_an_exact_line() -> None:
    batches = [8, 8, 16, 64]
    line = fit_line(batches, [0.01 + 0.002 * b for b in batches])
    assert (line.fixed, line.per_sample) == pytest.approx((0.01, 0.002), rel=1e-9)


def test_outliers_do_not_move_it() -> None:
    rng = np.random.default_rng(0)
    batches = np.repeat([8, 32, 64], 51)
    seconds = (0.01 + 0.002 * batches) * rng.normal(1, 0.01, len(batches))
    seconds[::7] *= 10
    line = fit_line(batches, seconds)
    assert (line.fixed, line.per_sample) == pytest.approx((0.01, 0.002), rel=0.05)


def test_neither_part_is_negative() -> None:
    falling = fit_line([1, 2, 3], [3, 2, 1])
    assert min(falling.fixed, falling.per_sample, falling.floor) >= 0
    assert falling.seconds(1) == pytest.approx(falling.seconds(3))
    falling_fixed = fit_line([1, 2, 3], [0.1, 2, 5])
    assert falling_fixed.fixed == 0
    assert falling_fixed.per_sample > 0
    assert fit_line([1, 2], [0, 0]) == Line(0.0, 0.0)


def test_large_batches_are_no_trouble() -> None:
    line = fit_line([10**8, 2 * 10**8], [1.0, 2.0])
    assert line.seconds(3 * 10**8) == pytest.approx(3.0)


def test_one_batch_takes_the_ratio_of_the_prior() -> None:
    line = fit_line([10, 10, 10], [0.2, 0.4, 9.0], prior=Line(0.1, 0.01))
    assert (line.fixed, line.per_sample) == pytest.approx((0.2, 0.02))
    assert fit_line([10], [0.4]) == Line(0.0, 0.04)
    assert fit_line([10], [0.4], prior=Line(0.0, 0.0)) == Line(0.0, 0.04)
    assert fit_line([0], [0.4]) == Line(0.4, 0.0)


@pytest.mark.parametrize(
    ("batches", "seconds"),
    [([], []), ([1], [1, 2]), ([1], [math.nan]), ([-1], [1]), ([1], [-1]), ([[1]], [[1]])],
)
def test_refuses_what_is_no_measurement(batches: object, seconds: object) -> None:
    with pytest.raises(InputError):
        fit_line(batches, seconds)  # type: ignore[arg-type]


def test_the_wire_is_seen_by_the_rank_that_waits_least() -> None:
    rng = np.random.default_rng(0)
    true = np.array([0.05, 0.02])
    waits = rng.exponential(0.02, (400, 4, 2)) * (rng.random((400, 4, 1)) < 0.7)
    seconds = fit_communication(true + waits)
    assert seconds == pytest.approx(true, rel=0.02)
    assert np.all((true + waits).mean(axis=(0, 1)) > true * 1.1)
    for bad in (np.zeros((2, 2)), np.zeros((0, 2, 2)), np.full((1, 1, 1), np.nan)):
        with pytest.raises(InputError):
            fit_communication(bad)


def test_combines_by_inverse_variance() -> None:
    shares = combine([[0.2, 1.0], [0.4, 1.0]], [[1.0, 1.0], [3.0, 1.0]])
    assert shares == pytest.approx([0.25, 1.0])
    assert combine([1.0, 2.0, 6.0], [0.0, 0.0, 1.0]) == pytest.approx(1.5)
    assert combine([1.0, 2.0], [math.inf, 1.0]) == pytest.approx(2.0)
    assert combine([1.0, 2.0], [math.inf, math.inf]) == pytest.approx(1.5)
    for means, variances in (([], []), ([1.0], [1.0, 2.0]), ([1.0], [-1.0]), ([math.nan], [1.0])):
        with pytest.raises(InputError):
            combine(means, variances)


def test_combining_beats_the_plain_mean() -> None:
    rng = np.random.default_rng(0)
    deviations = np.array([0.005, 0.01, 0.05, 0.2])
    means = 0.3 + rng.normal(size=(2000, 4)) * deviations
    combined = combine(means.T, np.broadcast_to(deviations[:, None] ** 2, (4, 2000)))
    assert combined.std() < 0.0048
    assert means.mean(axis=1).std() > 0.045
