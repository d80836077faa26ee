"""Jobs that learn as Sia's do, on the small applications of these tests."""

from __future__ import annotations

import numpy as np
import pytest

from staves.simulation._application import Application, Statistics
from staves.simulation._curves import Curve, StepTable
from staves.simulation._sia_work import SiaWork

TYPES, SIZES = ("a100", "t4"), (8, 4)


def application() -> Application:
    """Return one of passes of 10 + batch ms on a100, four times that on t4, and 5 ms of sync."""
    tables = {}
    for name, factor in (("a100", 1.0), ("t4", 4.0)):
        batch = np.array([8.0, 16.0, 64.0])
        compute = factor * (0.010 + 0.001 * batch)
        curves: dict[tuple[int, ...], Curve] = {
            nodes: Curve(batch, compute + sync, np.full(3, sync))
            for nodes, sync in (((1,), 0.0), ((2,), 0.005), ((4,), 0.005), ((4, 4), 0.05))
        }
        shapes = {(len(nodes), sum(nodes)): curve for nodes, curve in curves.items()}
        tables[name] = StepTable(curves, shapes)
    statistics = Statistics(
        np.array([32.0, 1024.0]),
        np.array([100.0, 300.0, 600.0]),
        np.ones((3, 2)),
        np.array([[1.0, 1.0], [10.0, 10.0], [100.0, 100.0]]),
    )
    return Application("small", tables, statistics, calibration=1.5)


def work(*, adaptive: bool = True) -> SiaWork:
    return SiaWork(application(), TYPES, SIZES, 256, adaptive=adaptive)


def test_before_it_has_trained_it_runs_the_reference_batch_and_knows_nothing() -> None:
    job = work()
    assert job.rate(0, ((1,), ())) == pytest.approx(32 / 0.042 / 1.5)
    assert job.rates(0)(np.array([[1, 0], [0, 1], [0, 4]])).tolist() == [1.0, 1.0, 1.0]
    assert job.rates(0)(np.array([[1, 1]])).tolist() == [0.0]


def test_what_it_has_trained_at_is_believed_and_other_types_by_their_ratio() -> None:
    job = work()
    job.rate(0, ((1,), ()))
    assert job.trained(0)
    assert not job.trained(0)  # the same point, the same statistics
    alone, other = job.rates(0)(np.array([[1, 0], [0, 1]]))
    ratio = (0.010 + 0.064) / (4 * (0.010 + 0.064))
    assert other == pytest.approx(alone * ratio)


def test_with_noise_it_takes_larger_batches_and_that_pays() -> None:
    job = work()
    job.rate(2, ((4,), ()))
    assert job.trained(2)
    before, after = work().rate(2, ((4,), ())), job.rate(2, ((4,), ()))
    assert after > before


def test_a_fixed_batch_is_kept_and_its_steps_are_worth_its_gain() -> None:
    job = work(adaptive=False)
    for _ in range(2):  # before and after it has learned
        seconds = 0.010 + 0.064 + 0.005
        gain = (10 + 1) / (10 / 8 + 1)
        assert job.rate(1, ((4,), ())) == pytest.approx(gain * 32 / seconds / 1.5)
        job.trained(1)
    assert job.step_work(1) == pytest.approx(gain * 32)
    assert work().step_work(1) == 0.0


def test_unlike_devices_do_not_run() -> None:
    job = work()
    assert job.rate(0, ((1,), (1,))) == 0.0
    assert not job.trained(0)
    assert job.marks == (3200.0, 9600.0, 19200.0)
