"""An even split against the optimal one on four emulated devices of three speeds.

Both are measured in the same run: the even split during the first probe phase, the optimal one
after it. Compute durations are declared; collectives and processes are real.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.launch import staves_run

HERE = Path(__file__).parent


def measure(batches: tuple[int, ...] = (32, 64), runs: int = 3) -> dict[str, Any]:
    return {"emulated": True, "batches": {str(batch): _batch(batch, runs) for batch in batches}}


def _batch(batch: int, runs: int) -> dict[str, Any]:
    rows = []
    for _ in range(runs):
        figures = staves_run(
            HERE / "scripts" / "mlp.py", HERE / "four_devices.yaml", "--batch", str(batch)
        )
        step = figures["step_seconds"]["p50"]
        rows.append(
            {
                "local_batches": figures["local_batches"],
                "even_step_seconds": figures["even_step_seconds"],
                "optimal_step_seconds": step,
                "predicted_step_seconds": figures["predicted_step_seconds"],
                "speed_up": figures["even_step_seconds"] / step,
                "predicted_over_measured": figures["predicted_step_seconds"] / step,
                "deadlines": figures["deadlines"],
                "void": figures["void"],
            }
        )
    ratios = [row["speed_up"] for row in rows]
    return {
        "speed_up": {
            "median": statistics.median(ratios),
            "min": min(ratios),
            "max": max(ratios),
        },
        "runs": rows,
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
