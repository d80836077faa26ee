from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from tests.steptime.clusters import random_model, seeds, time_of

from staves.errors import InputError
from staves.steptime import Communication, Device, Line, StepTimeModel

LINE = Line(0.01, 0.001)


@given(seeds)
def test_device_seconds_follow_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng, 5, idle=True)
    local = rng.integers(0, 9, (3, 5))
    seconds = model.device_seconds(local)
    assert seconds.shape == (3, 5)
    for row, times in zip(local, seconds, strict=True):
        expected = [time_of(model, i, k) for i, k in enumerate(row)]
        assert times == pytest.approx(expected, rel=1e-14)
        assert model.step_seconds(row) == times.max()
        assert model.idle_share(row) == pytest.approx(1 - times / times.max())


def test_bottlenecks() -> None:
    backward = Line(0.0, 0.01)
    devices = (
        Device("computes", "x", Line(0.0, 0.0), backward),
        Device("waits", "x", Line(0.0, 0.0), Line(0.0, 0.001)),
        Device("ties", "x", Line(0.1, 0.0), Line(0.0, 0.0)),
        Device("rests", "x", LINE, backward, idle=0.0),
    )
    model = StepTimeModel(devices, Communication((0.5, 1.0), (0.04, 0.01)))
    local = [10, 10, 10, 0]
    assert model.bottlenecks(local) == (
        "compute",
        "communication",
        "communication",
        "communication",
    )
    free = StepTimeModel(devices, Communication((0.5, 1.0), (0.0, 0.01)))
    assert free.bottlenecks(local) == ("compute",) * 4
    # (1 - 0.5) P = 0.04 to the last bit or so: a tie, which counts as compute.
    tie = StepTimeModel(devices[:1], Communication((0.5, 1.0), (0.05, 0.01)))
    assert tie.bottlenecks([10]) == ("compute",)


def test_left_out_devices_do_not_count() -> None:
    slow = Device("slow", "x", Line(9.0, 0.0), LINE)
    model = StepTimeModel((Device("fast", "x", LINE, LINE), slow), Communication((1.0,), (0.0,)))
    assert model.step_seconds([10, 0]) > 9
    assert model.step_seconds([10, 0], left_out=[1]) == pytest.approx(0.04)
    assert model.idle_share([10, 0], left_out=[1]).tolist() == [0.0, 1.0]


def test_a_step_without_time_has_no_idle_share() -> None:
    nothing = Line(0.0, 0.0)
    model = StepTimeModel((Device("d", "x", nothing, nothing),), Communication((1.0,), (0.0,)))
    assert model.idle_share([3]).tolist() == [0.0]


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_refuses_numbers_that_are_no_durations(value: float) -> None:
    for make in (
        lambda: Line(value, 0.0),
        lambda: Line(0.0, value),
        lambda: Line(0.0, 0.0, floor=value),
        lambda: Device("d", "x", LINE, LINE, idle=value),
        lambda: Communication((1.0,), (value,)),
        lambda: Communication((value,), (1.0,)),
    ):
        with pytest.raises(InputError):
            make()


def test_refuses_what_is_no_model() -> None:
    good = Communication((1.0,), (0.0,))
    with pytest.raises(InputError, match="empty"):
        StepTimeModel((), good)
    with pytest.raises(InputError, match="two devices are named 'd'"):
        StepTimeModel((Device("d", "x", LINE, LINE),) * 2, good)
    with pytest.raises(InputError, match="min_batch 3 is above max_batch 2"):
        Device("d", "x", LINE, LINE, 3, 2)
    with pytest.raises(InputError, match="negative"):
        Device("d", "x", LINE, LINE, -3)
    for ready, seconds in (((), ()), ((1.0,), ()), ((0.5, 0.2, 1.0), (0, 0, 0)), ((0.9,), (0,))):
        with pytest.raises(InputError):
            Communication(ready, seconds)
    model = StepTimeModel((Device("d", "x", LINE, LINE),), good)
    for local in ([1, 2], 3, [-1], [math.nan]):
        with pytest.raises(InputError, match="local_batches"):
            model.device_seconds(local)
