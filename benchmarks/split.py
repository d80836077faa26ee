"""How long the exact integer split takes, beside the linear programme that it replaces.

`python -m benchmarks.split` prints one JSON document. The linear programme (HiGHS, sparse) only
finds the fractional optimum; the split also rounds it exactly.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from staves.steptime import (
    Communication,
    Device,
    Line,
    StepTimeModel,
    integer_split,
    optimal_split,
)

SIZES = (10, 100, 1000, 10_000)
SAMPLES_A_DEVICE = 256
REPEATS = 9
PROGRAMME_REPEATS = 3
PROGRAMME_LIMIT = 1000


def cluster(n: int, seed: int = 0) -> StepTimeModel:
    """Return `n` devices of 20-fold unlike speeds, a third of them capped, and 3 buckets."""
    rng = np.random.default_rng(seed)

    def line(per_sample: float) -> Line:
        return Line(float(rng.uniform(0.002, 0.02)), per_sample * float(rng.uniform(0.7, 1.4)))

    devices = []
    for i in range(n):
        slowness = float(rng.uniform(1, 20))
        cap = int(rng.integers(64, 1024)) if i % 3 == 0 else None
        forward, backward = line(0.00005 * slowness), line(0.0001 * slowness)
        devices.append(Device(f"device-{i}", f"type-{i % 4}", forward, backward, max_batch=cap))
    return StepTimeModel(tuple(devices), Communication((0.15, 0.6, 1.0), (0.02, 0.02, 0.004)))


def programme(model: StepTimeModel, batch: int) -> Callable[[], float]:
    """Return a call that solves min T as a linear programme; its matrices are made beforehand."""
    n, communication = len(model.devices), model.communication
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    bounds: list[float] = []
    for i, device in enumerate(model.devices):
        for j, ready in enumerate(communication.ready):
            row = len(bounds)
            rows += [row, row]
            columns += [i, n]
            values += [device.forward.per_sample + ready * device.backward.per_sample, -1.0]
            fixed = device.forward.fixed + ready * device.backward.fixed
            bounds.append(-fixed - sum(communication.seconds[j:]))
    matrix = csr_matrix((values, (rows, columns)), shape=(len(bounds), n + 1))
    cost = np.r_[np.zeros(n), 1.0]
    total = csr_matrix(np.r_[np.ones(n), 0.0][None])
    limits = [(d.min_batch, d.max_batch) for d in model.devices] + [(0, None)]

    def solve() -> float:
        result = linprog(  # type: ignore[call-overload]  # its stubs know no sparse arrays
            cost, A_ub=matrix, b_ub=bounds, A_eq=total, b_eq=[batch], bounds=limits, method="highs"
        )
        return float(result.fun)

    return solve


def measure() -> dict[str, object]:
    """Time split and programme at every size, in this process, on one model each."""
    results: list[dict[str, object]] = []
    for n in SIZES:
        model = cluster(n)
        batch = SAMPLES_A_DEVICE * n
        built = [_seconds(lambda model=model: _fresh(model).lines) for _ in range(REPEATS)]  # type: ignore[misc]
        integer_split(model, batch)
        split = [_seconds(lambda m=model, b=batch: integer_split(m, b)) for _ in range(REPEATS)]  # type: ignore[misc]
        result: dict[str, object] = {
            "devices": n,
            "batch": batch,
            "build_seconds": _summary(built),
            "split_seconds": _summary(split),
        }
        if n <= PROGRAMME_LIMIT:
            solve = programme(model, batch)
            optimum = solve()
            solved = [_seconds(solve) for _ in range(PROGRAMME_REPEATS)]
            result["linprog_seconds"] = _summary(solved)
            result["linprog_over_split"] = statistics.median(solved) / statistics.median(split)
            fractional = optimal_split(model, batch).step_seconds
            result["relative_gap_to_linprog"] = abs(fractional / optimum - 1)
        else:
            result["linprog_skipped"] = f"above {PROGRAMME_LIMIT} devices it takes too long here"
        results.append(result)
    return {
        "benchmark": "split",
        "samples_a_device": SAMPLES_A_DEVICE,
        "buckets": 3,
        "repeats": REPEATS,
        "results": results,
        "growth_exponent": {
            "split": _exponent(results, "split_seconds"),
            "build": _exponent(results, "build_seconds"),
            "linprog": _exponent(results, "linprog_seconds"),
        },
    }


def _fresh(model: StepTimeModel) -> StepTimeModel:
    return StepTimeModel(model.devices, model.communication)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _summary(seconds: list[float]) -> dict[str, float]:
    return {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}


def _exponent(results: list[dict[str, object]], key: str) -> float:
    """Return p of the fit seconds ~ devices^p, from 100 devices on: below, calls cost more."""
    sizes, medians = [], []
    for result in results:
        summary, n = result.get(key), result["devices"]
        if isinstance(summary, dict) and isinstance(n, int) and n >= 100:
            sizes.append(n)
            medians.append(summary["median"])
    return float(np.polyfit(np.log(sizes), np.log(medians), 1)[0])


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
