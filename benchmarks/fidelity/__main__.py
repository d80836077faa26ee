"""Run a trace on a real service of emulated devices, simulate it, and print how near that comes.

python -m benchmarks.fidelity --seed 1 --policy srtf
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.fidelity import _measured, _simulated
from benchmarks.fidelity._cluster import CLUSTER, run_trace
from benchmarks.fidelity._recording import decisions_file, orders_file, recorded
from benchmarks.fidelity._replay import differing
from benchmarks.fidelity._trace import TraceJob, draw
from staves.errors import StavesError
from staves.hardware import MISSES_ALLOWED, read_cluster
from staves.scheduling import policy
from staves.service import read_job
from staves.simulation import Overheads


def measure(
    seed: int,
    policy_name: str,
    home: Path,
    *,
    length: float = 1.0,
    costs: Overheads | None = None,
) -> dict[str, Any]:
    """Return both sides of one trace.

    Args:
        seed: of the trace.
        policy_name: which policy decides, on both sides.
        home: a folder for the service, which must not be there.
        length: of the jobs, in units of their usual one.
        costs: overheads of another run; None: those of this one.
    """
    trace, load = draw(seed, length=length), os.getloadavg()[0]
    jobs = run_trace(trace, home, policy_name)
    (home / "jobs.json").write_text(json.dumps(jobs))
    figures = compare(trace, jobs, home, policy_name, costs=costs)
    return {
        "seed": seed,
        "length": length,
        "load_before": load,
        "load_after": os.getloadavg()[0],
        **figures,
    }


def compare(
    trace: list[TraceJob],
    jobs: list[dict[str, Any]],
    home: Path,
    policy_name: str,
    *,
    costs: Overheads | None = None,
) -> dict[str, Any]:
    """Return what `measure` does of a run that lies in `home`."""
    cluster = read_cluster(CLUSTER)
    orders = [json.loads(line) for line in orders_file(home).read_text().splitlines()]
    truths = _measured.truths(trace, jobs)
    taken = costs or _measured.overheads(cluster, truths, jobs, orders)
    count, bad = differing(policy(policy_name), recorded(decisions_file(home)))
    first = jobs[0]["submitted"]
    arrivals = [job["submitted"] - first for job in jobs]
    specs = [read_job(home / f"{job.name}.yaml") for job in trace]
    by_id = {job["id"]: truth for job, truth in zip(jobs, truths, strict=True)}
    ends = _simulated.guided(cluster, orders, by_id, taken)
    free = _simulated.free(policy(policy_name), cluster, specs, arrivals, truths, taken)
    measured = [job["finished"] - job["submitted"] for job in jobs]
    deadlines = [job["summary"]["deadlines"] for job in jobs]
    missed = sum(d["missed"] for d in deadlines) / sum(d["device_steps"] for d in deadlines)
    return {
        "emulated": True,
        "policy": policy_name,
        "missed_deadlines": missed,
        "void": missed > MISSES_ALLOWED,
        "decisions": {"replayed": count, "differing": bad, "byte_equal": not bad},
        "overheads": {"from": "this run" if costs is None else "another run", **asdict(taken)},
        "wire_seconds": {
            job.application: sum(truth.communication.seconds)
            for job, truth in zip(trace, truths, strict=True)
        },
        "simulated": _side(trace, measured, list(free.jct_seconds)),
        "same_orders": _side(trace, measured, [ends[job["id"]] - job["submitted"] for job in jobs]),
    }


def _side(trace: list[TraceJob], measured: list[float], simulated: list[float]) -> dict[str, Any]:
    ratios = [s / m for s, m in zip(simulated, measured, strict=True)]
    return {
        "largest_difference": max(abs(ratio - 1) for ratio in ratios),
        "mean_difference": fmean(simulated) / fmean(measured) - 1,
        "mean_jct": {"measured": fmean(measured), "simulated": fmean(simulated)},
        "jobs": [
            {"name": job.name, "measured_jct": m, "simulated_jct": s, "ratio": ratio}
            for job, m, s, ratio in zip(trace, measured, simulated, ratios, strict=True)
        ],
    }


def main() -> int:
    """Run the benchmark; return its exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.fidelity", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the trace")
    parser.add_argument("--policy", default="heet", help="as `staves policies` lists them")
    parser.add_argument("--length", type=float, default=3.0, help="of the jobs; 1: half a minute")
    parser.add_argument("--home", type=Path, help="keep all of the run in this new folder")
    parser.add_argument("--overheads", type=Path, help="take overheads from this earlier output")
    options = parser.parse_args()
    costs = None
    if options.overheads:
        costs = Overheads(
            **{
                name: value
                for name, value in json.loads(options.overheads.read_text())["overheads"].items()
                if name != "from"
            }
        )
    try:
        with tempfile.TemporaryDirectory() as folder:
            home = options.home or Path(folder) / "home"
            figures = measure(
                options.seed, options.policy, home.absolute(), length=options.length, costs=costs
            )
    except StavesError as error:
        print(f"fidelity: {error.message}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
