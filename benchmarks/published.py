"""Published averages of Sia and Gavel beside ours: `python -m benchmarks.published --data DIR`.

DIR holds `pollux/traces` and `NO-LICENCE-STATED/sia/{traces,workloads}`, as their authors released
them. Every Philly and Helios (saturn) workload there is played on 64 devices under `sia`, with
learned beliefs, and `gavel`; the table of the Sia paper (SOSP '23, table 3) stands beside. JSON on
standard output, a table on standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from staves.errors import StavesError
from staves.simulation import SETUPS, Conditions, Experiment, material, run_all

PUBLISHED = {
    ("philly", "sia"): {"average": 0.6, "deviation": 0.1, "p99": 9.5, "makespan": 14.2},
    ("philly", "gavel"): {"average": 1.9, "deviation": 0.3, "p99": 30.0, "makespan": 33.8},
    ("saturn", "sia"): {"average": 0.7, "deviation": 0.1, "p99": 10.9, "makespan": 14.9},
    ("saturn", "gavel"): {"average": 2.5, "deviation": 0.9, "p99": 38.7, "makespan": 43.0},
}
DEVICE_HOURS = {
    ("philly", "sia"): 4.0,
    ("philly", "gavel"): 9.0,
    ("saturn", "sia"): 4.8,
    ("saturn", "gavel"): 12.1,
}
"""Hours; the deviation is that of averages over workloads. Device-hours are those of a job."""


def measure(data: Path, processes: int = 1) -> list[dict[str, Any]]:
    """Return for each trace and policy our figures over all of its workloads, and the published.

    Raises:
        StavesError: the data are not there.
    """
    sia = data / "NO-LICENCE-STATED" / "sia"
    profiles = [data / "pollux" / "traces", sia / "traces"]
    keys, experiments = [], []
    for trace, name in PUBLISHED:
        files = sorted((sia / "workloads" / trace).glob("workload-*.csv"))
        if not files:
            raise StavesError(f"no workload of {trace} in {data}", hint="see --data in --help")
        for file in files:
            keys.append((trace, name))
            made = material("sia-64", str(file), profiles, SETUPS["sia"])
            conditions = Conditions(free_moves=True)
            experiments.append(Experiment(name, *made, beliefs="learned", conditions=conditions))
    summaries: dict[tuple[str, str], list[dict[str, Any]]] = {key: [] for key in PUBLISHED}
    for number, result in run_all(experiments, processes):
        print(f"benchmarks: {keys[number]} {result['workload']}", file=sys.stderr, flush=True)
        summaries[keys[number]].append(result)
    return [_row(key, summaries[key]) for key in PUBLISHED]


def _row(key: tuple[str, str], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    told = [run["summary"] for run in sorted(runs, key=lambda run: str(run["workload"]))]
    averages = [one["average_jct_seconds"] / 3600 for one in told]
    published = {**PUBLISHED[key], "device_hours": DEVICE_HOURS[key]}
    ours = {
        "average": fmean(averages),
        "deviation": stdev(averages),
        "p99": fmean(one["p99_jct_seconds"] / 3600 for one in told),
        "makespan": fmean(one["makespan_seconds"] / 3600 for one in told),
        "device_hours": fmean(one["device_seconds"] / 3600 / one["jobs"] for one in told),
    }
    distance = abs(ours["average"] - published["average"])
    return {
        "trace": key[0],
        "policy": key[1],
        "workloads": len(told),
        "ours": ours,
        "averages": averages,
        "published": published,
        "within_two_deviations": distance <= 2 * published["deviation"],
    }


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public traces")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    rows = measure(given.data, given.processes)
    print("ours (published), hours; device-h of a job", file=sys.stderr)
    for row in rows:
        figures = (
            f"{name} {row['ours'][name]:.2f} ({row['published'][name]})" for name in row["ours"]
        )
        print(f"{row['trace']} {row['policy']}: {', '.join(figures)}", file=sys.stderr)
    print(json.dumps({"unit": "hours", "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
