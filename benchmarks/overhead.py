"""What Staves costs on equal devices: its step against plain DistributedDataParallel's.

With a fixed batch; with an adaptive one in its first steps, whose gradients' norms are all taken,
and beyond them, where they are taken now and then. Two processes, one CNN each side, blocks of
steps in turn within the same processes, so that whatever else the machine does falls on both alike.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.launch import staves_run

HERE = Path(__file__).parent
AT_FIRST = 200
"""Steps in which the noise scale is not known well yet, at least."""


def measure(blocks: int = 40, steps: int = 8) -> dict[str, Any]:
    """Return medians of the step times of both, and of the ratio of neighbouring blocks."""
    dense = AT_FIRST // (steps + 1)  # the first step of a block is left out
    adaptive = _times(dense + blocks, steps, "--adaptive")
    parts = {
        "fixed_batch": _times(blocks, steps),
        "adaptive_batch": {name: times[dense:] for name, times in adaptive.items()},
        "adaptive_batch_at_first": {name: times[:dense] for name, times in adaptive.items()},
    }
    return {name: _compared(times) for name, times in parts.items()}


def _times(blocks: int, steps: int, *options: str) -> dict[str, list[list[float]]]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "times.json"
        staves_run(
            HERE / "scripts" / "side_by_side.py",
            HERE / "two_cpus.yaml",
            *("--output", str(output), "--blocks", str(blocks), "--steps", str(steps), *options),
        )
        times: dict[str, list[list[float]]] = json.loads(output.read_text())
    return times


def _compared(times: dict[str, list[list[float]]]) -> dict[str, Any]:
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
        "blocks": len(plain),
        "steps_a_block": len(times["plain"][0]),
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
