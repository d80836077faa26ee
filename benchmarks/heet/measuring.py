"""The parts of the document: each runs its settings, and holds them against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.heet.judging import alone, judged, over_seeds, ratios
from benchmarks.heet.runs import Runs
from benchmarks.heet.sections import (
    ABLATION,
    AVERAGE,
    COMPARED,
    GATES,
    HEET,
    LEAST_BY_MIXING,
    LOADS,
    MIXING,
    MOST_BY_ERRORS,
    ROBUST,
    SIA,
    SWEEP,
)
from benchmarks.heet.workloads import TUNING, Workloads
from staves.scheduling import JobKind

Part = Callable[[Runs, Workloads, Sequence[str]], dict[str, Any]]


def compared(
    runs: Runs, there: Workloads, workloads: Sequence[str], kind: JobKind = "adaptive"
) -> dict[str, Any]:
    """Return every setting over Sia with one kind of job, and how it stands to the gates."""
    found = runs.of(kind, COMPARED, workloads, there.whole, kind)
    bound = alone([run for run in found if run["policy"] == SIA.name])
    return {
        "ratios": ratios([*found, *bound], SIA.name),
        "gates": judged(found, GATES),
    }


def elastic(runs: Runs, there: Workloads, workloads: Sequence[str]) -> dict[str, Any]:
    """Return the same with jobs of a fixed batch."""
    return compared(runs, there, workloads, "elastic")


def ablation(runs: Runs, there: Workloads, workloads: Sequence[str]) -> dict[str, Any]:
    """Return heet without each of its parts, over heet."""
    return {"ratios": ratios(runs.of("adaptive", ABLATION, workloads, there.whole), HEET.name)}


def sweep(runs: Runs, there: Workloads, workloads: Sequence[str]) -> dict[str, Any]:
    """Return heet around what is set, over heet, on the tuning workloads, whatever is reported."""
    return {"ratios": ratios(runs.of("adaptive", SWEEP, TUNING, there.whole), HEET.name)}


def mixing(runs: Runs, there: Workloads, workloads: Sequence[str]) -> dict[str, Any]:
    """Return heet over heet with one type a job, where no type alone fills a job's maximum."""
    loads = {}
    for every in LOADS:
        found = runs.of(
            f"one job in {every}",
            MIXING,
            workloads,
            partial(there.thinned, every=every),
        )
        loads[f"one job in {every}"] = ratios(found, MIXING[0].name)
    light = loads[f"one job in {LOADS[0]}"][HEET.name]["ratio"][AVERAGE]
    most = 1 - LEAST_BY_MIXING
    return {"loads": loads, "most": most, "holds": light["value"] <= most}


def robust(runs: Runs, there: Workloads, workloads: Sequence[str]) -> dict[str, Any]:
    """Return what errors and failures cost heet and Sia, each over itself without them."""
    found = over_seeds(runs.of("adaptive", ROBUST, workloads, there.whole))
    costs = {}
    for one in ROBUST:
        if one not in (HEET, SIA):
            plain = HEET.name if one.policy == HEET.policy else SIA.name
            costs[one.name] = ratios(found, plain)[one.name]["ratio"]
    return {"costs": costs, "holds": _withstood(costs)}


def _withstood(costs: Mapping[str, Any]) -> dict[str, bool]:
    """Return by setting of heet whether its cost is within the gate, or below that of Sia."""
    value = {name: ratio[AVERAGE]["value"] for name, ratio in costs.items()}
    return {
        one.name: value[one.name] <= MOST_BY_ERRORS
        if one.belief_error
        else value[one.name] < value[one.name.replace(HEET.name, SIA.name)]
        for one in ROBUST
        if one.name in value and one.policy == HEET.policy
    }


PARTS: Mapping[str, Part] = {
    "adaptive": compared,
    "elastic": elastic,
    "ablation": ablation,
    "sweep": sweep,
    "mixing": mixing,
    "robust": robust,
}
