"""All systems on one workload, one mix and one seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from benchmarks.training.declared import BALANCED_STEPS, DDP_BATCHES, Mix, Workload, truth
from benchmarks.training.runs import adaptive, stepped, timed, trajectory
from benchmarks.training.systems import (
    DDP,
    LBBSP,
    AdaptDLLike,
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


def cell(workload: Workload, mix: Mix, seed: int) -> dict[str, Any]:
    """Return the seconds to the target of every system, and what they are to be judged by."""
    of = truth(workload, mix)
    batches = [times * workload.reference for times in DDP_BATCHES]
    paths = {batch: trajectory(workload, seed, batch) for batch in batches}
    first = batches[0]
    fixed = {name: make(of, first) for name, make in FIXED.items()}
    systems: dict[str, Any] = {
        f"ddp at {batch}": timed(path, of, DDP(batch), seed) for batch, path in paths.items()
    }
    systems |= {
        f"{name} at {first}": timed(paths[first], of, system, seed)
        for name, system in fixed.items()
    }
    systems |= {
        name: adaptive(workload, of, system, seed)
        for name, system in {
            "adaptdl-like": AdaptDLLike(),
            "proportional adaptive": ProportionalAdaptive(),
            "ours adaptive": Learner(),
            "oracle adaptive": Oracle(of),
        }.items()
    }
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
        "balance": {batch: _balance(of, batch, seed) for batch in (first, batches[-1])},
        "systems": systems,
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
