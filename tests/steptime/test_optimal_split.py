from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from tests.steptime.clusters import (
    feasible,
    linear_programme,
    random_model,
    seeds,
    smallest_batch,
    time_of,
)

from staves.errors import InputError
from staves.steptime import (
    Communication,
    Device,
    Line,
    StepTimeModel,
    integer_split,
    optimal_split,
)


def check(model: StepTimeModel, batch: float) -> None:
    split = optimal_split(model, batch)
    assert split.step_seconds == pytest.approx(linear_programme(model, batch), rel=1e-9, abs=1e-12)
    local = np.array(split.local_batches)
    assert math.fsum(local) == pytest.approx(batch, rel=1e-12)
    for i, device in enumerate(model.devices):
        assert device.min_batch <= local[i] <= (device.max_batch or math.inf) or local[i] == 0
        assert time_of(model, i, local[i]) <= split.step_seconds * (1 + 1e-12)


@given(seeds)
@settings(max_examples=500)
def test_equals_the_linear_programme(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for n in (1, 2, 3, int(rng.integers(4, 17))):
        model, batch = feasible(lambda n=n: random_model(rng, n), 40 * n, rng)  # type: ignore[misc]
        check(model, batch)


@pytest.mark.parametrize("n", [64, 256])
@pytest.mark.parametrize("seed", range(8))
def test_equals_the_linear_programme_for_many_devices(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, batch = feasible(lambda: random_model(rng, n, bounds=seed % 2 == 0), 60 * n, rng)
    check(model, batch)


@given(seeds)
@settings(max_examples=200)
def test_bounds_the_integer_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, batch = feasible(lambda: random_model(rng, 5, idle=True), 100, rng)
    fractional = optimal_split(model, batch)
    assert fractional.step_seconds <= integer_split(model, batch).step_seconds * (1 + 1e-12)


def test_a_flat_piece_is_shared_by_those_that_have_it() -> None:
    flat = Line(0.0, 0.001, floor=0.1)
    devices = tuple(Device(f"d{i}", "x", flat, Line(0.0, 0.0)) for i in range(4))
    model = StepTimeModel(devices, Communication((1.0,), (0.0,)))
    split = optimal_split(model, 40)
    assert split.local_batches == pytest.approx((10, 10, 10, 10))
    assert split.step_seconds == 0.1


def test_devices_at_their_caps_do_not_move() -> None:
    slow, fast = Line(0.0, 1.0), Line(0.0, 0.01)
    devices = (
        Device("fast", "x", fast, Line(0.0, 0.0), max_batch=10),
        Device("slow", "x", slow, Line(0.0, 0.0)),
    )
    split = optimal_split(StepTimeModel(devices, Communication((1.0,), (0.5,))), 12.5)
    assert split.local_batches == pytest.approx((10.0, 2.5), rel=1e-14)
    assert split.step_seconds == pytest.approx(3.0, rel=1e-14)


@pytest.mark.parametrize("batch", [0, -1, math.nan, math.inf])
def test_refuses_what_is_no_batch(batch: float) -> None:
    model = random_model(np.random.default_rng(0), 2, bounds=False)
    with pytest.raises(InputError, match="batch"):
        optimal_split(model, batch)


def test_refuses_what_does_not_fit() -> None:
    line = Line(0.0, 1.0)
    devices = tuple(Device(f"d{i}", "x", line, line, 2, 5) for i in range(3))
    model = StepTimeModel(devices, Communication((1.0,), (0.0,)))
    assert smallest_batch(model) == 6
    with pytest.raises(InputError, match="above the sum of max_batch, 15"):
        optimal_split(model, 16)
    with pytest.raises(InputError, match="below the sum of min_batch, 6"):
        optimal_split(model, 5)
