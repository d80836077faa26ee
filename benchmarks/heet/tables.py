"""Markdown tables of the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.compare import cell
from benchmarks.field import HOUR, TRACES
from benchmarks.heet.sections import AVERAGE, MAKESPAN, P99

LABELS = {AVERAGE: "average JCT", P99: "p99", MAKESPAN: "makespan"}


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the first row of cells is the head."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def of_ratios(found: Mapping[str, Any], *, sort: bool = False) -> str:
    """Return mean average completion times, and all ratios, of each setting."""
    traces = [trace for trace in TRACES if trace in next(iter(found.values()))["by_trace"]]
    heads = ["setting", "hours", *LABELS.values(), *(TRACES[trace] for trace in traces)]
    rows = []
    for name, one in found.items():
        mean, ratio = one["mean"], one["ratio"]
        worst, unfair = mean["worst_finish_time_fairness"], mean["unfair_share"]
        rows.append(
            [
                name,
                f"{mean[AVERAGE] / HOUR:.2f}",
                *(cell(ratio[figure]) for figure in LABELS),
                *(f"{one['by_trace'][trace]['value']:.3f}" for trace in traces),
                "-" if worst is None else f"{worst:.1f}",
                "-" if unfair is None else f"{unfair:.1%}",
            ]
        )
    if sort:
        order = sorted(found, key=lambda name: found[name]["ratio"][AVERAGE]["value"])
        by_name = {row[0]: row for row in rows}
        rows = [by_name[name] for name in order]
    return table([*heads, "worst rho", "unfair"], rows)


def of_gates(gates: Sequence[Mapping[str, Any]]) -> str:
    """Return what was to be shown, and what was found."""
    rows = [
        [
            one["what"],
            one["over"],
            LABELS[one["figure"]],
            f"{one['most']:.3f}",
            cell(one["ratio"]),
            "yes" if one["holds"] else "**no**",
        ]
        for one in gates
    ]
    return table(["setting", "over", "figure", "at most", "found", "holds"], rows)


def of_costs(robust: Mapping[str, Any]) -> str:
    """Return what errors and failures cost, and whether that is little enough."""
    holds = {True: "yes", False: "**no**", None: ""}
    rows = [
        [
            name,
            *(cell(ratio[figure]) for figure in LABELS),
            holds[robust["holds"].get(name)],
        ]
        for name, ratio in robust["costs"].items()
    ]
    return table(["setting, over itself without", *LABELS.values(), "holds"], rows)
