"""A device that becomes slower or faster is noticed soon; noise alone is not taken for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from staves.steptime import Cell, Line
from staves.training._drift import Drift
from staves.training._timing import StepRecord

LINE = Line(0.010, 0.001)
BATCH = 32


def record(step: int, seconds: float, samples: int = BATCH) -> StepRecord:
    return StepRecord(
        step=step,
        plan=0,
        samples=samples,
        forward=seconds / 3,
        backward=seconds * 2 / 3,
        ready=(),
        wire=(),
        step_seconds=seconds,
    )


def cells(noise: float, batch: float = BATCH, weight: float = 20) -> tuple[Cell, ...]:
    seconds = LINE.seconds(batch) / 2
    return (Cell(batch, weight, seconds, (noise * seconds) ** 2),)


def watch(noise: float) -> Drift:
    """A watcher of a device that has been fitted at one batch, each half of it with that noise."""
    drift = Drift()
    drift.fitted(cells(noise), cells(noise))
    return drift


def steps(noise: float, seed: int, factor: float = 1.0) -> Iterator[float]:
    random = np.random.default_rng(seed)
    while True:
        yield LINE.seconds(BATCH) * factor * float(np.exp(noise * random.standard_normal()))


def noticed(drift: Drift, seconds: Iterator[float], most: int, first: int = 0) -> int | None:
    for count in range(most):
        drift.observe(record(first + count, next(seconds)), LINE.seconds(BATCH))
        if drift.since is not None:
            return count + 1
    return None


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
def test_noise_alone_is_no_change(noise: float) -> None:
    # Less than one false alarm in 10,000 steps: of 6 runs of that length five at least have none.
    alarms = [noticed(watch(noise), steps(noise, seed), 10_000) for seed in range(6)]
    assert sum(alarm is not None for alarm in alarms) <= 1


@pytest.mark.parametrize("factor", [2.0, 0.5, 3.0, 1.5])
@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
def test_a_change_is_noticed_and_when_it_began(noise: float, factor: float) -> None:
    for seed in range(20):
        drift = watch(noise)
        assert noticed(drift, steps(noise, seed), 100) is None
        within = noticed(drift, steps(noise, seed + 100, factor), 12, first=100)
        assert within is not None
        assert drift.since is not None
        assert 94 <= drift.since <= 103


def test_a_single_stall_is_no_change() -> None:
    drift = watch(0.02)
    seconds = steps(0.02, 0)
    for count in range(500):
        stalled = 30.0 if count % 10 == 0 else 1.0
        drift.observe(record(count, stalled * next(seconds)), LINE.seconds(BATCH))
    assert drift.since is None


def test_a_line_that_is_off_where_nothing_was_measured_is_no_change() -> None:
    drift = watch(0.02)
    for count in range(200):  # four times the batch, and the line 60 % off there
        drift.observe(record(count, 1.6 * LINE.seconds(4 * BATCH), 4 * BATCH), LINE.seconds(128))
    assert drift.since is None
    for count in range(200, 210):
        drift.observe(record(count, 3.2 * LINE.seconds(4 * BATCH), 4 * BATCH), LINE.seconds(128))
    assert drift.since is not None


def test_a_change_together_with_a_new_split_is_noticed() -> None:
    drift = watch(0.02)
    for count in range(30):  # a batch near the measured one
        drift.observe(record(count, 2 * LINE.seconds(36), 36), LINE.seconds(36))
    assert drift.since is not None
    assert drift.since < 8


def test_a_new_fit_begins_anew() -> None:
    drift = watch(0.02)
    assert noticed(drift, steps(0.02, 0, 2.0), 10) is not None
    drift.fitted(cells(0.02), cells(0.02))
    assert drift.since is None
    assert noticed(drift, steps(0.02, 1), 1000) is None
