"""How a simulation's CPU time grows: `python -m benchmarks.simulator [--plot FILE]`.

From 64 to 4,096 devices, with 2.5 synthetic jobs a device that come within 8 hours. Each policy
stops at a size that keeps the whole within some ten CPU minutes. JSON on standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy loads: its threads spin

import numpy as np

from staves.simulation import SETUPS, Conditions, Experiment, material, run

LARGEST = {"tiresias": 4096, "gavel": 4096, "sia": 256}
JOBS_PER_DEVICE = 2.5


def measure() -> dict[str, Any]:
    """Return for each policy the CPU seconds by size, and the exponent fitted to them."""
    result = {}
    for name, largest in LARGEST.items():
        rows = []
        for devices in (64, 256, 1024, 4096):
            if devices <= largest:
                rows.append(_one(name, devices))
                print(f"benchmarks: {name} {rows[-1]}", file=sys.stderr, flush=True)
        size = np.log([row["devices"] for row in rows])
        seconds = np.log([row["cpu_seconds"] for row in rows])
        result[name] = {"sizes": rows, "exponent": float(np.polyfit(size, seconds, 1)[0])}
    return result


def _one(name: str, devices: int) -> dict[str, Any]:
    jobs = int(JOBS_PER_DEVICE * devices)
    made = material(f"sia-{devices}", f"synthetic-{jobs}", [], SETUPS["sia"])
    before = time.process_time()
    told = run(Experiment(name, *made, conditions=Conditions(free_moves=True)))["summary"]
    return {
        "devices": devices,
        "jobs": jobs,
        "finished": told["finished"],
        "decisions": told["decisions"],
        "cpu_seconds": time.process_time() - before,
        "simulated_hours": told["makespan_seconds"] / 3600,
    }


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw CPU seconds over devices, both logarithmic, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, one in result.items():
        sizes = [row["devices"] for row in one["sizes"]]
        seconds = [row["cpu_seconds"] for row in one["sizes"]]
        axes.loglog(sizes, seconds, marker="o", label=f"{name}: devices^{one['exponent']:.2f}")
    axes.set(xlabel="devices (2.5 jobs each)", ylabel="CPU seconds", xticks=[64, 256, 1024, 4096])
    axes.set_xticklabels(["64", "256", "1,024", "4,096"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=90, metadata={"Software": None})


def main() -> None:
    """Measure, draw where that is asked for, and print the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="draw a PNG there")
    given = parser.parse_args()
    result = measure()
    if given.plot is not None:
        draw(result, given.plot)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
