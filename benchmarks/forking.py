"""What a forked worker saves: from `staves scale` to the first step over one device more.

The job of `benchmarks.rescale` on four emulated devices, its workers forked and started by exec in
turns, so that whatever else the machine does weighs on both.
"""

from __future__ import annotations

import json
import os
import statistics
from typing import Any

from benchmarks.rescale import HERE, in_place

DEVICES = HERE / "four_emulated.yaml"


def measure(cycles: int = 3, turns: int = 2) -> dict[str, Any]:
    """Return the seconds of growing from 3 to 4 devices; their ratio is of the turns' medians."""
    before = os.getloadavg()[0]
    ways: dict[str, list[dict[str, Any]]] = {"fork": [], "exec": []}
    for _ in range(turns):
        for way, found in ways.items():
            switch = "1" if way == "fork" else "0"
            found.append(in_place(cycles, 0, devices=DEVICES, STAVES_FORK=switch)["grow"])
    means = {
        way: statistics.mean(each["from_asking_seconds"]["median"] for each in found)
        for way, found in ways.items()
    }
    return {
        "cores": os.cpu_count(),
        "cycles_each_turn": cycles,
        "load_average_before": before,
        "ways": ways,
        "exec_over_fork": means["exec"] / means["fork"],
        "load_average_after": os.getloadavg()[0],
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
