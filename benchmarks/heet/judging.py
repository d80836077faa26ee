"""From runs to ratios: paired by workload, with intervals, and held against what must be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from benchmarks.heet.sections import AVERAGE, MAKESPAN, P99, Gate
from benchmarks.kept import Run
from staves.simulation import FIGURES, compare

COMPARED = (AVERAGE, P99, MAKESPAN)
ALONE = "every job alone"
FAIRNESS = ("worst", "unfair_share")


def over_seeds(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return one run for each setting and workload, its figures the means over its seeds."""
    same: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        same.setdefault((run["policy"], run["workload"]), []).append(run)
    return [_one(group, fmean, group[0]["policy"]) for group in same.values()]


def of_several(runs: Sequence[Run], names: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:
    """Return a name for the median of several settings, and its run on each workload."""
    label = names[0] if len(names) == 1 else f"median of {', '.join(names)}"
    same: dict[str, list[Run]] = {}
    for run in runs:
        if run["policy"] in names:
            same.setdefault(run["workload"], []).append(run)
    return label, [_one(group, median, label) for group in same.values()]


def _one(group: Sequence[Run], middle: Any, label: str) -> dict[str, Any]:
    told = [run["summary"] for run in group]
    fair = [one["finish_time_fairness"] for one in told]
    return {
        **group[0],
        "policy": label,
        "seed": 0,
        "summary": {
            **told[0],
            **{name: middle([one[name] for one in told]) for name in COMPARED},
            "finish_time_fairness": {
                **fair[0],
                **{name: middle([one[name] for one in fair]) for name in FAIRNESS},
            },
        },
    }


def alone(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return what the average would be on each workload if every job were alone on the cluster."""
    nothing = dict.fromkeys(FAIRNESS)
    return [
        {
            **run,
            "policy": ALONE,
            "summary": {
                **dict.fromkeys(FIGURES),
                AVERAGE: run["summary"]["contention_free_jct_seconds"],
                "finish_time_fairness": nothing,
                "deadlines": run["summary"]["deadlines"],
            },
        }
        for run in runs
    ]


def ratios(runs: Sequence[Run], baseline: str) -> dict[str, dict[str, Any]]:
    """Return by setting its mean figures and its ratios to the baseline's, as `compare` does.

    Beside them under `by_trace` the ratio of average completion times for each trace alone.
    """
    found = {one["policy"]: one for one in compare(runs, baseline)["policies"]}
    traces = dict.fromkeys(_trace(run) for run in runs)
    for trace in traces:
        part = compare([run for run in runs if _trace(run) == trace], baseline)["policies"]
        for one in part:
            by_trace = found[one["policy"]].setdefault("by_trace", {})
            by_trace[trace] = one["ratio"][AVERAGE]
    return found


def _trace(run: Run) -> str:
    return str(run["workload"]).split("/")[0]


def judged(runs: Sequence[Run], gates: Sequence[Gate]) -> list[dict[str, Any]]:
    """Return for every gate and figure the ratio that was found, and whether it is within it."""
    result = []
    for gate in gates:
        over, others = of_several(runs, gate.over)
        own = [run for run in runs if run["policy"] == gate.what]
        found = ratios([*own, *others], over)[gate.what]
        for figure, most in gate.most.items():
            ratio: Mapping[str, Any] = found["ratio"][figure]
            result.append(
                {
                    "what": gate.what,
                    "over": over,
                    "figure": figure,
                    "ratio": ratio,
                    "by_trace": found["by_trace"] if figure == AVERAGE else None,
                    "most": most,
                    "holds": ratio["value"] <= most,
                }
            )
    return result
