"""How long one decision of `heet` takes, and how near it is: `python -m benchmarks.decision`.

On synthetic views of growing numbers of jobs and devices, half of the jobs running; once with rates
as the simulator has them, which jobs of one application share, and once as the service has them:
each job has its own step-time lines. Of each: the medians of five decisions after a warm-up, of
wall-clock and CPU seconds (a decision is one thread), configurations, rates and utilities included,
and the gap to the bound of the relaxation. Of 100 views of 160 jobs on 64 devices also the gap to
the optimum of HiGHS (within 1e-4). Progress on standard error; with `--json` one JSON document on
standard output; `--plot FILE` draws the growth as PNG.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy loads: its threads spin

import numpy as np

from staves.estimation import JobProfile
from staves.hardware import peak_teraflops
from staves.scheduling import Decision, View
from staves.scheduling.heet import Heet
from staves.simulation import synthetic_view
from staves.steptime import Communication, Line

REPEATS = 5
ROUNDS = 100  # of 160 jobs on 64 devices, whose gaps are told
SMALL = (160, 64)
JOBS = ((625, 10_000), (1250, 10_000), (2500, 10_000), (5000, 10_000))
DEVICES = ((5000, 1250), (5000, 2500), (5000, 5000), (5000, 10_000))
OWN = (SMALL, (625, 1250))  # jobs whose rates are their own


def measure() -> dict[str, Any]:
    """Return decision times and gaps by numbers of jobs and devices."""
    result: dict[str, Any] = {"small": _shared(*SMALL)}
    for of, sizes in (("jobs", JOBS), ("devices", DEVICES)):
        rows = [_shared(jobs, devices) for jobs, devices in sizes]
        result[f"by_{of}"] = {"sizes": rows, "exponent": _exponent(rows, of)}
    result["own_rates"] = [_own(jobs, devices) for jobs, devices in OWN]
    result["rounds"] = _rounds(*SMALL)
    return result


def _shared(jobs: int, devices: int) -> dict[str, Any]:
    view = synthetic_view(jobs, devices)
    return _timed(lambda: view)


def _own(jobs: int, devices: int) -> dict[str, Any]:
    """Time decisions before which every job's rates are made anew, as the service makes them."""
    view = synthetic_view(jobs, devices)
    rng = np.random.default_rng(0)
    profiles = [_profile(view.types, rng) for _ in view.jobs]

    def again() -> View:
        fresh = [
            replace(job, rates=profile.rates(view.types))
            for job, profile in zip(view.jobs, profiles, strict=True)
        ]
        return replace(view, jobs=tuple(fresh))

    return _timed(again)


def _timed(view: Callable[[], View]) -> dict[str, Any]:
    policy, wall, cpu = Heet(), [], []
    for _ in range(1 + REPEATS):
        seen = view()
        before = time.perf_counter(), time.process_time()
        decision = policy.decide(seen)
        wall.append(time.perf_counter() - before[0])
        cpu.append(time.process_time() - before[1])
    row = {
        "jobs": len(seen.jobs),
        "devices": sum(seen.capacity),
        "decision_seconds": median(wall[1:]),
        "cpu_seconds": median(cpu[1:]),
        "first_cpu_seconds": cpu[0],
        "gap": _gap(decision),
    }
    print(f"benchmarks: {row}", file=sys.stderr, flush=True)
    return row


def _profile(types: Sequence[str], rng: np.random.Generator) -> JobProfile:
    """Return a job whose steps on every type have been measured, at up to 16 devices."""
    batch, sample = int(rng.choice([64, 128, 256])), float(rng.uniform(1e-3, 1e-2))
    lines = {}
    for name in types:
        slope = sample / (peak_teraflops(name) or 10.0)
        lines[name] = Line(2e-3, slope), Line(4e-3, 2 * slope)
    wire = float(rng.uniform(1e-3, 2e-2))
    return JobProfile(batch, lines, Communication((0.5, 1.0), (wire, wire / 4)), world_size=4)


def _gap(decision: Decision) -> float:
    assert decision.value is not None
    assert decision.bound
    return 1 - decision.value / decision.bound


def _rounds(jobs: int, devices: int) -> dict[str, Any]:
    """Return the gaps of many decisions to their optimum, and to their bound."""
    to_best, to_bound = [], []
    for seed in range(ROUNDS):
        view = synthetic_view(jobs, devices, seed)
        decision = Heet().decide(view)
        assert decision.value is not None
        to_bound.append(_gap(decision))
        to_best.append(1 - decision.value / _best(view, decision))
    return {
        "jobs": jobs,
        "devices": devices,
        "rounds": ROUNDS,
        "gap_to_best": {"p50": median(to_best), "p99": float(np.quantile(to_best, 0.99))},
        "gap_to_bound": {"p50": median(to_bound), "p99": float(np.quantile(to_bound, 0.99))},
    }


def _best(view: View, decision: Decision) -> float:
    """Return the optimum of the decision's own problem, within 1e-4."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, vstack

    weighed = [decision.weighed[job.id] for job in view.jobs]
    owner = np.repeat(np.arange(len(weighed)), [len(utility) for _, utility in weighed])
    table = np.concatenate([table for table, _ in weighed])
    utility = np.concatenate([utility for _, utility in weighed])
    size = len(utility)
    each = csr_array((np.ones(size), (owner, np.arange(size))), shape=(len(weighed), size))
    found = milp(
        -utility,
        integrality=np.ones(size, dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(
            vstack([each, csr_array(table.T.astype(float))]),
            -np.inf,
            np.append(np.ones(len(weighed)), view.capacity),
        ),
        options={"mip_rel_gap": 1e-4},
    )
    return float(utility @ found.x)


def _exponent(rows: Sequence[dict[str, Any]], of: str) -> float:
    sizes = np.log([row[of] for row in rows])
    seconds = np.log([row["cpu_seconds"] for row in rows])
    return float(np.polyfit(sizes, seconds, 1)[0])


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw decision times over jobs and over devices, both logarithmic, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    for axes, of in zip(figure.subplots(1, 2, sharey=True), ("jobs", "devices"), strict=True):
        one = result[f"by_{of}"]
        sizes = [row[of] for row in one["sizes"]]
        seconds = [row["cpu_seconds"] for row in one["sizes"]]
        other, number = ("devices", 10_000) if of == "jobs" else ("jobs", 5000)
        axes.loglog(sizes, seconds, marker="o", label=f"{of}^{one['exponent']:.2f}")
        axes.set(xlabel=f"{of} ({number:,} {other})", xticks=sizes)
        axes.set_xticklabels([f"{size:,}" for size in sizes])
        axes.grid(alpha=0.3)
        axes.legend()
    ticks = [0.05, 0.1, 0.2, 0.5, 1.0]
    figure.axes[0].set(ylabel="CPU seconds of a decision", yticks=ticks, ylim=(0.04, 1.1))
    figure.axes[0].set_yticklabels(map(str, ticks))
    for axes in figure.axes:
        axes.minorticks_off()
    figure.savefig(path, dpi=90, metadata={"Software": None})


def main() -> None:
    """Measure, draw where that is asked for, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--plot", type=Path, help="draw a PNG there")
    given = parser.parse_args()
    result = measure()
    if given.plot is not None:
        draw(result, given.plot)
    if given.json:
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
