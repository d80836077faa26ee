"""Batches and step times against oracles of their own: brute force, and scipy's interpolation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import LinearNDInterpolator

from staves.simulation._curves import Curve, StepTable, curve_of
from staves.simulation._profile_work import ApplicationRates
from staves.simulation._ways import ways
from tests.simulation import small

seeds = st.integers(0, 2**32 - 1)
TYPES = ("a", "b")


def compute(speed: float, local: float) -> float:
    return (small.FIXED + small.PER_SAMPLE * max(local, 1)) / speed


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_a_mixed_set_is_split_as_brute_force_would(seed: int) -> None:
    draw = np.random.default_rng(seed)
    speeds = {"a": 1.0, "b": float(draw.uniform(0.1, 1.0))}
    counts = (int(draw.integers(1, 4)), int(draw.integers(1, 4)))
    batch = int(draw.integers(10, 64 * sum(counts) // 2))
    app = small.application(speeds)
    way = ways(app, TYPES, (4, 4), ((counts[0],), (counts[1],)), batch)
    best = min(
        max(compute(speeds["a"], x), compute(speeds["b"], y))
        for x, y in itertools.product(range(65), repeat=2)
        if counts[0] * x + counts[1] * y >= batch
    )
    (seconds,) = way.seconds
    sync = small.SYNC * (sum(counts) - 1)
    # A grid of times, and whole samples: never better than the optimum, and near to it.
    assert best + sync <= seconds * (1 + 1e-9)
    assert seconds <= (best + sync) * 1.12


def test_mixed_sets_gain_over_either_part_for_a_large_batch() -> None:
    app = small.application({"a": 1.0, "b": 0.5})
    rates = ApplicationRates(app, TYPES, (4, 4), batch=400).epoch(0)
    alone, mixed = rates(np.array([[2, 0], [2, 2]]))
    assert mixed > alone


def test_memory_makes_accumulation_steps() -> None:
    app = small.application({"a": 1.0})
    way = ways(app, ("a",), (4,), ((2,),), 512)  # 256 a device, in passes of 64
    sync = small.SYNC
    assert way.accumulation.tolist() == [3.0]
    assert way.seconds == pytest.approx([4 * (small.FIXED + small.PER_SAMPLE * 64) + sync])


def test_one_device_accumulates_once_beyond_the_reference() -> None:
    way = ways(small.application({"a": 1.0}), ("a",), (4,), ((1,),), None)
    beyond = way.batch > 16
    assert way.accumulation[~beyond].tolist() == [0.0]
    assert (way.accumulation[beyond] >= 1).all()


def test_what_cannot_run_has_no_way() -> None:
    app = small.application({"a": 1.0})
    assert not len(ways(app, TYPES, (4, 4), ((), (1,)), None).batch)  # no profile on b
    assert not len(ways(app, TYPES, (4, 4), ((4,) * 5, ()), None).batch)  # five nodes
    assert not len(ways(app, TYPES, (4, 4), ((), ()), None).batch)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_the_best_batch_is_the_best_of_all_that_are_tried(seed: int) -> None:
    draw = np.random.default_rng(seed)
    app = small.application({"a": 1.0, "b": 0.4})
    shared = ApplicationRates(app, TYPES, (4, 4))
    epoch = int(draw.integers(3))
    placement = ((int(draw.integers(1, 5)),), ())
    way = ways(app, TYPES, (4, 4), placement, None)
    noise = float(np.geomspace(1.0, 30.0, 3)[epoch])
    goodputs = [
        16 * (noise + 1) / (noise * 16 / b + 1) / s
        for b, s in zip(way.batch.tolist(), way.seconds.tolist(), strict=True)
    ]
    assert shared.epoch(epoch).at(placement) == pytest.approx(max(goodputs))
    assert shared.epoch(epoch).batch_at(placement) == way.batch[int(np.argmax(goodputs))]


def test_rates_of_counts_are_those_of_packed_nodes() -> None:
    shared = ApplicationRates(small.application({"a": 1.0, "b": 0.4}), TYPES, (4, 4))
    assert shared.placement((9, 0)) == ((4, 4, 1), ())
    rates = shared.epoch(1)
    assert rates(np.array([[9, 0]]))[0] == rates.at(((4, 4, 1), ()))


def plane_table(draw: np.random.Generator) -> tuple[StepTable, np.ndarray]:
    """Step times that are linear in nodes, devices and batch: any interpolation must agree."""
    a, b, c, d = draw.uniform(0.01, 0.1, 4)
    batch = np.array([4.0, 8.0, 32.0])
    shapes = {}
    for nodes in (1, 2, 4, 8):
        for devices in (nodes, 2 * nodes, 4 * nodes):
            step = a + b * nodes + c * devices + d * batch
            shapes[nodes, devices] = Curve(batch, step, step / 2)
    return StepTable({}, shapes), np.array([a, b, c, d])


@given(seeds)
def test_between_shapes_it_is_linear_and_outside_it_says_so(seed: int) -> None:
    draw = np.random.default_rng(seed)
    table, (a, b, c, d) = plane_table(draw)
    nodes = int(draw.integers(1, 9))
    devices = int(draw.integers(nodes, 4 * nodes + 1))
    full, rest = divmod(devices, nodes)
    placement = tuple([full + 1] * rest + [full] * (nodes - rest))
    curve = table.curve(placement)
    assert curve is not None
    assert curve.measured
    local = float(draw.uniform(4, 32))
    step, sync = curve.at(np.array([local]))
    expected = a + b * nodes + c * devices + d * local
    assert step[0] == pytest.approx(expected)
    assert sync[0] == pytest.approx(expected / 2)
    points = [(n, g) for n, g in table.shapes]
    linear = LinearNDInterpolator(
        points, [float(table.shapes[p].at(np.array([local]))[0][0]) for p in points]
    )
    assert step[0] == pytest.approx(
        float(linear(np.array([[nodes, devices]], dtype=np.float64))[0])
    )


def test_beyond_the_measured_range() -> None:
    table, _ = plane_table(np.random.default_rng(0))
    assert table.curve((1,) * 9) is None
    uneven = table.curve((9, 9))  # 18 devices on 2 nodes: more than the 8 that were measured
    assert uneven is not None
    assert not uneven.measured
    curve = curve_of([(8, 0.2, 0.1), (4, 0.1, 0.05), (8, 0.4, 0.3)])
    assert curve.batch.tolist() == [4.0, 8.0]
    assert curve.step.tolist() == pytest.approx([0.1, 0.3])
    step, _ = curve.at(np.array([2.0, 9.0]))
    assert step.tolist() == [0.1, math.inf]
