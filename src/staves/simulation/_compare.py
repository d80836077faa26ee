"""Policies against each other over files and seeds: paired ratios, with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from staves.errors import InputError, quoted
from staves.simulation._intervals import interval

FIGURES: Mapping[str, str] = {
    "average_jct_seconds": "average JCT",
    "p50_jct_seconds": "p50 JCT",
    "p99_jct_seconds": "p99 JCT",
    "makespan_seconds": "makespan",
    "device_hours_per_job": "device-hours a job",
    "worst_finish_time_fairness": "worst rho",
    "unfair_share": "unfair share",
    "deadline_share": "deadlines met",
}
"""What is compared, and how tables name it."""


def figures(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the compared figures of a run's summary."""
    fairness, due = summary["finish_time_fairness"], summary["deadlines"]
    return {
        **{name: summary.get(name) for name in FIGURES if name in summary},
        "worst_finish_time_fairness": fairness["worst"],
        "unfair_share": fairness["unfair_share"],
        "deadline_share": due["share"],
    }


def compare(runs: Sequence[Mapping[str, Any]], baseline: str) -> dict[str, Any]:
    """Return each policy's figures, and their ratios to the baseline's.

    Runs are paired by workload and seed. A ratio is the geometric mean over the pairs in which both
    figures are above zero; its interval is of 95 %, by the percentile bootstrap over pairs, in the
    logarithm. None where there is no pair, or no interval from one pair.

    Args:
        runs: as `run` returned them.
        baseline: the policy that others are divided by.

    Raises:
        InputError: the baseline has no run, or a policy two runs of one workload and seed.
    """
    by_policy: dict[str, dict[tuple[str, int], dict[str, float | None]]] = {}
    for one in runs:
        pairs = by_policy.setdefault(str(one["policy"]), {})
        key = (str(one["workload"]), int(one["seed"]))
        if key in pairs:
            raise InputError(f"{one['policy']}: two runs of {key[0]}, seed {key[1]}")
        pairs[key] = figures(one["summary"])
    if baseline not in by_policy:
        raise InputError(
            f"the baseline {quoted(baseline)} has no run", hint=f"one of {', '.join(by_policy)}"
        )
    policies = [
        {
            "policy": name,
            "runs": len(pairs),
            "mean": {figure: _mean(pairs.values(), figure) for figure in FIGURES},
            "ratio": {figure: _ratio(pairs, by_policy[baseline], figure) for figure in FIGURES},
        }
        for name, pairs in by_policy.items()
    ]
    return {
        "baseline": baseline,
        "workloads": sorted({str(one["workload"]) for one in runs}),
        "seeds": sorted({int(one["seed"]) for one in runs}),
        "policies": policies,
    }


def _mean(pairs: Any, figure: str) -> float | None:
    values = [one[figure] for one in pairs if one[figure] is not None]
    return math.fsum(values) / len(values) if values else None


def _ratio(
    own: Mapping[tuple[str, int], Mapping[str, float | None]],
    others: Mapping[tuple[str, int], Mapping[str, float | None]],
    figure: str,
) -> dict[str, Any] | None:
    logs = []
    for key in own.keys() & others.keys():
        one, other = own[key][figure], others[key][figure]
        if one and other and one > 0 and other > 0:
            logs.append(math.log(one) - math.log(other))
    if not logs:
        return None
    logs.sort()  # sets have no order: equal runs must give equal bytes
    found = interval(logs)
    return {
        "value": math.exp(fmean(logs)),
        "low": None if found is None else math.exp(found[0]),
        "high": None if found is None else math.exp(found[1]),
        "pairs": len(logs),
    }
