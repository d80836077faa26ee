"""Random clusters, and oracles that share nothing with the code under test."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack

from staves.steptime import Communication, Device, Line, StepTimeModel

seeds = st.integers(0, 2**32 - 1)


def random_model(
    rng: np.random.Generator,
    n: int,
    *,
    bounds: bool = True,
    idle: bool = False,
    floors: float = 0.3,
) -> StepTimeModel:
    """Return `n` devices of very unlike speeds, with degenerate lines among them."""

    def sometimes(chance: float, value: float) -> float:
        return value if rng.random() < chance else 0.0

    def line() -> Line:
        slope = sometimes(0.9, 10 ** rng.uniform(-5, -2))
        return Line(
            sometimes(0.8, rng.uniform(0, 0.05)), slope, sometimes(floors, rng.uniform(0, 0.1))
        )

    devices = []
    for i in range(n):
        low = int(rng.integers(0, 4)) if bounds and rng.random() < 0.4 else 0
        high = low + int(rng.integers(0, 40)) if bounds and rng.random() < 0.6 else None
        rest = rng.uniform(0, 0.15) if idle and rng.random() < 0.5 else None
        devices.append(Device(f"d{i}", "x", line(), line(), low, high, rest))
    buckets = int(rng.integers(1, 5))
    ready = np.sort(rng.random(buckets))
    ready[-1] = 1.0
    wire = rng.uniform(0, 0.02, buckets)
    return StepTimeModel(tuple(devices), Communication(tuple(ready.tolist()), tuple(wire.tolist())))


def time_of(model: StepTimeModel, i: int, batch: float, *, rests: bool = True) -> float:
    """t_i(b), from its definition."""
    device, communication = model.devices[i], model.communication
    forward = max(device.forward.floor, device.forward.fixed + device.forward.per_sample * batch)
    backward = max(
        device.backward.floor, device.backward.fixed + device.backward.per_sample * batch
    )
    if rests and batch == 0 and device.idle is not None:
        forward, backward = device.idle, 0.0
    return max(
        forward + ready * backward + math.fsum(communication.seconds[j:])
        for j, ready in enumerate(communication.ready)
    )


def linear_programme(model: StepTimeModel, batch: float) -> float:
    """min T subject to every line of every device <= T and sum b = batch, by HiGHS."""
    n, communication = len(model.devices), model.communication
    slopes, offsets, owner = [], [], []
    for i, device in enumerate(model.devices):
        a, p = device.forward, device.backward
        for j, ready in enumerate(communication.ready):
            wire = sum(communication.seconds[j:])
            for a_fixed, a_slope in ((a.fixed, a.per_sample), (a.floor, 0.0)):
                for p_fixed, p_slope in ((p.fixed, p.per_sample), (p.floor, 0.0)):
                    slopes.append(a_slope + ready * p_slope)
                    offsets.append(a_fixed + ready * p_fixed + wire)
                    owner.append(i)
    rows = len(owner)
    matrix = csr_matrix((slopes, (range(rows), owner)), shape=(rows, n))
    result = linprog(  # type: ignore[call-overload]  # its stubs know no sparse arrays
        np.r_[np.zeros(n), 1.0],
        A_ub=hstack([matrix, csr_matrix(-np.ones((rows, 1)))], format="csr"),
        b_ub=-np.array(offsets),
        A_eq=csr_matrix(np.r_[np.ones(n), 0.0][None]),
        b_eq=[batch],
        bounds=[(d.min_batch, d.max_batch) for d in model.devices] + [(0, None)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert result.status == 0, result.message
    return float(result.fun)


def best_by_force(model: StepTimeModel, batch: int, *, leave_out: bool = False) -> float:
    """The least T over all splits in whole samples (over all subsets); inf where there is none."""
    best = {0: -math.inf}
    for i, device in enumerate(model.devices):
        cap = batch if device.max_batch is None else min(batch, device.max_batch)
        choices = [(k, time_of(model, i, k)) for k in range(device.min_batch, cap + 1)]
        if leave_out:
            choices.append((0, -math.inf))
        following: dict[int, float] = {}
        for held, worst in best.items():
            for k, seconds in choices:
                total, value = held + k, max(worst, seconds)
                if total <= batch and value < following.get(total, math.inf):
                    following[total] = value
        best = following
    return best.get(batch, math.inf)


def largest_batch(model: StepTimeModel, limit: int) -> int:
    return min(limit, sum(limit if d.max_batch is None else d.max_batch for d in model.devices))


def smallest_batch(model: StepTimeModel) -> int:
    return max(1, sum(d.min_batch for d in model.devices))


def feasible(
    make: Callable[[], StepTimeModel], limit: int, rng: np.random.Generator
) -> tuple[StepTimeModel, int]:
    """Return a model and a batch that it holds."""
    while True:
        model = make()
        low, high = smallest_batch(model), largest_batch(model, limit)
        if low <= high:
            return model, int(rng.integers(low, high + 1))
