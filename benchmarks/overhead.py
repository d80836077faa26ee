"""What Staves costs on equal devices: its step against plain DistributedDataParallel's.

With a fixed batch, and with an adaptive one, whose gradients' norms are taken in every step. Two
processes, one CNN each side, blocks of steps in turn within the same processes, so that
whatever else the machine does falls on both alike.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.launch import staves_run

HERE = Path(__file__).parent


def measure(blocks: int = 40, steps: int = 8) -> dict[str, Any]:
    """Return medians of the step times of both, and of the ratio of neighbouring blocks."""
    return {
        "fixed_batch": _measure(blocks, steps),
        "adaptive_batch": _measure(blocks, steps, "--adaptive"),
    }


def _measure(blocks: int, steps: int, *options: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "times.json"
        staves_run(
            HERE / "scripts" / "side_by_side.py",
            HERE / "two_cpus.yaml",
            *("--output", str(output), "--blocks", str(blocks), "--steps", str(steps), *options),
        )
        times = json.loads(output.read_text())
    plain = [statistics.median(block) for block in times["plain"]]
    ours = [statistics.median(block) for block in times["staves"]]
    ratios = sorted(b / a for a, b in zip(plain, ours, strict=True))
    return {
        "plain_step_seconds": statistics.median(plain),
        "staves_step_seconds": statistics.median(ours),
        "ratio": {
            "median": statistics.median(ratios),
            "quartiles": [ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]],
        },
        "blocks": blocks,
        "steps_a_block": steps,
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
