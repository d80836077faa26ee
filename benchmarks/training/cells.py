"""All systems on one workload, one mix and one seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from benchmarks.training.declared import (
    BALANCED_BATCHES,
    BALANCED_STEPS,
    DDP_BATCHES,
    Mix,
    Workload,
    truth,
)
from benchmarks.training.results import Results
from benchmarks.training.runs import Trajectory, adaptive, stepped, timed, trajectory
from benchmarks.training.systems import (
    DDP,
    LBBSP,
    AdaptDLLike,
    LinesAdaptive,
    Oracle,
    Proportional,
    ProportionalAdaptive,
)
from staves.steptime import even_split, integer_split
from staves.training import Learner, System, VirtualTruth

FIXED: dict[str, Callable[[VirtualTruth, int], System]] = {
    "proportional": lambda of, batch: Proportional(batch),
    "lb-bsp": lambda of, batch: LBBSP(batch),
    "ours": lambda of, batch: Learner(),
    "oracle": Oracle,
}
"""Systems that balance a fixed batch."""

ADAPTIVE: dict[str, Callable[[VirtualTruth], System]] = {
    "adaptdl-like": lambda of: AdaptDLLike(),
    "proportional adaptive": lambda of: ProportionalAdaptive(),
    "lines adaptive": lambda of: LinesAdaptive(),
    "ours adaptive": lambda of: Learner(),
    "oracle adaptive": Oracle,
}
"""Systems that choose the batch."""

BALANCED = "balanced"


def names(workload: Workload) -> list[str]:
    """Return the names of a cell's runs: at fixed batches, all balance, adaptive batches."""
    return [*map(_fixed, _batches(workload)), BALANCED, *ADAPTIVE]


def cell(results: Results, workload: Workload, mix: Mix, seed: int) -> dict[str, Any]:
    """Return the seconds to the target of every system, and what they are to be judged by."""
    before = results.cpu_seconds
    of = truth(workload, mix)
    batches = _batches(workload)
    kept = {
        batch: results.run(
            (workload.name, f"seed {seed}", _fixed(batch)),
            lambda batch=batch: asdict(trajectory(workload, seed, batch)),  # type: ignore[misc]
        )
        for batch in batches
    }
    paths = {batch: Trajectory.of(run) for batch, run in kept.items()}
    here = workload.name, f"seed {seed}", mix.name
    balanced = results.run((*here, BALANCED), lambda: _balanced(of, workload, paths, seed))
    systems: dict[str, Any] = dict(balanced["systems"])
    for name, make in ADAPTIVE.items():
        systems[name] = results.run(
            (*here, name),
            lambda make=make: adaptive(workload, of, make(of), seed),  # type: ignore[misc]
        )
    return {
        "workload": workload.name,
        "mix": mix.name,
        "seed": seed,
        "reference": workload.reference,
        "trajectories": [asdict(path) for path in paths.values()],
        "bounds": {
            batch: even_split(of.at(0, 0.0), batch).step_seconds
            / integer_split(of.at(0, 0.0), batch).step_seconds
            for batch in batches
        },
        "ceiling": ceiling(of),
        "balance": balanced["balance"],
        "systems": systems,
        "cpu_seconds": results.cpu_seconds - before,
    }


def _batches(workload: Workload) -> list[int]:
    return [times * workload.reference for times in DDP_BATCHES]


def _fixed(batch: int) -> str:
    return f"fixed {batch}"


def ceiling(of: VirtualTruth) -> float:
    """Return what load balance saves of the time at most: 1 - n / (c_max sum of 1 / c_i), with the
    seconds a sample of each device; where steps are all computing, and batches without bound."""
    per_sample = [
        device.forward.per_sample + device.backward.per_sample for device in of.at(0, 0.0).devices
    ]
    return 1 - len(per_sample) / (max(per_sample) * sum(1 / each for each in per_sample))


def _balanced(
    of: VirtualTruth, workload: Workload, paths: dict[int, Trajectory], seed: int
) -> dict[str, Any]:
    first = workload.reference
    fixed = {name: make(of, first) for name, make in FIXED.items()}
    systems = {
        f"ddp at {batch}": {"seconds": timed(path, of, DDP(batch), seed)}
        for batch, path in paths.items()
    }
    systems |= {
        f"{name} at {first}": {"seconds": timed(paths[first], of, system, seed)}
        for name, system in fixed.items()
    }
    return {
        "systems": systems,
        "balance": {
            str(times * first): _balance(of, times * first, seed) for times in BALANCED_BATCHES
        },
    }


def _balance(of: VirtualTruth, batch: int, seed: int) -> dict[str, dict[str, float]]:
    """Return how many times as fast as an even split each system makes its steps: all of them, and
    those of the second half."""
    even = stepped(of, DDP(batch), batch, seed)
    half = BALANCED_STEPS // 2
    ratios = {}
    for name, make in FIXED.items():
        ends = stepped(of, make(of, batch), batch, seed)
        ratios[name] = {
            "whole": even[-1] / ends[-1],
            "second_half": (even[-1] - even[half]) / (ends[-1] - ends[half]),
        }
    return ratios
