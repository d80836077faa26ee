"""Policies over several workloads and seeds: `python -m benchmarks.compare --help`.

Prints a table to standard error and one JSON document to standard output: every run's summary, and
paired ratios with bootstrap intervals.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from staves.simulation import (
    FIGURES,
    SETUPS,
    Conditions,
    Experiment,
    compare,
    material,
    run_all,
    synthetic_jobs,
)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all runs' summaries, and how the policies compare."""
    experiments = []
    for workload in arguments.workload:
        made = None
        drawn = synthetic_jobs(workload) is not None
        # Where nothing is drawn all seeds are one run: counted as many, they would feign certainty.
        varies = drawn or math.isfinite(arguments.failure_hours)
        for seed in range(arguments.seeds if varies else 1):
            if made is None or drawn:
                profiles = [Path(path) for path in arguments.profiles]
                setup = SETUPS[arguments.setup]
                made = material(arguments.cluster, workload, profiles, setup, seed=seed)
            conditions = Conditions(
                seed, failure_seconds=arguments.failure_hours * 3600, free_moves=True
            )
            experiments += [
                Experiment(policy, *made, arguments.job_kind, conditions=conditions)
                for policy in arguments.policy
            ]
    runs: dict[int, dict[str, Any]] = {}
    for number, result in run_all(experiments, arguments.processes):
        runs[number] = {key: value for key, value in result.items() if key != "jobs"}
        told = f"{len(runs)}/{len(experiments)}: {result['policy']}, {result['workload']}"
        print(f"benchmarks: {told}", file=sys.stderr, flush=True)
    ordered = [runs[number] for number in range(len(experiments))]
    baseline = arguments.baseline or arguments.policy[0]
    return {"comparison": compare(ordered, baseline), "runs": ordered}


def table(comparison: dict[str, Any]) -> str:
    """Return a Markdown table: ratios to the baseline, with their intervals."""
    heads = ["policy", *FIGURES.values()]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for one in comparison["policies"]:
        cells = [one["policy"], *(cell(one["ratio"][figure]) for figure in FIGURES)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(ratio: dict[str, Any] | None) -> str:
    """Return a ratio and its interval as people read them."""
    if ratio is None:
        return "-"
    if ratio["low"] is None:
        return f"{ratio['value']:.3f}"
    return f"{ratio['value']:.3f} ({ratio['low']:.3f}-{ratio['high']:.3f})"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", default="sia-64")
    parser.add_argument("--workload", action="append", required=True)
    parser.add_argument("--policy", action="append", required=True)
    parser.add_argument("--profiles", action="append", default=[])
    parser.add_argument("--baseline", help="the first policy, if absent")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--job-kind", choices=("adaptive", "elastic", "rigid"))
    parser.add_argument("--setup", choices=sorted(SETUPS), default="sia")
    parser.add_argument("--failure-hours", type=float, default=math.inf)
    parser.add_argument("--processes", type=int, default=1)
    document = measure(parser.parse_args(arguments))
    print(table(document["comparison"]), file=sys.stderr)
    print(json.dumps(document))


if __name__ == "__main__":
    main()
