"""What the cells say: medians over seeds, each seed paired with itself.

One rule for all averages: the median over the seeds of a cell of each seed's own ratio, with the
least and the greatest; over cells the median of their medians. A system that missed the target with
any seed has no ratio in that cell, and the rows say so; over cells that counts as the worst of all.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

OURS = "ours adaptive"
RIVALS = ("adaptdl-like", "proportional adaptive")
BESIDE = ("lines adaptive",)
"""Rivals that were not declared, and were added later."""
WITHIN = 1.1
"""Of the fewest samples to the target: the largest batch that needs no more is still efficient."""
_STUDENT = (12.706, 4.303, 3.182, 2.776)
"""Quantiles of 97.5 % of Student's t, by degrees of freedom from 1."""


def summary(cells: Sequence[Row]) -> list[Row]:
    """Return a row for each workload and mix."""
    keys = dict.fromkeys((cell["workload"], cell["mix"]) for cell in cells)
    return [_row([c for c in cells if (c["workload"], c["mix"]) == key]) for key in keys]


def _row(cells: Sequence[Row]) -> Row:
    first = cells[0]
    at_reference = f"ddp at {first['reference']}"
    paths = {path["batch"]: place for place, path in enumerate(first["trajectories"])}
    samples = {
        batch: _median([_times(batch, c["trajectories"][place]["steps"]) for c in cells])
        for batch, place in paths.items()
    }
    reached = {batch: each for batch, each in samples.items() if each is not None}
    seconds = {batch: _median(_seconds(cells, f"ddp at {batch}")) for batch in paths}
    timed = {batch: each for batch, each in seconds.items() if each is not None}
    systems = {
        name: {
            "reached": sum(s is not None for s in _seconds(cells, name)),
            "seconds": spread(_seconds(cells, name)),
            "seconds_by_seed": _seconds(cells, name),
            "less_time_than_ddp": less_time(cells, name, at_reference),
        }
        for name in first["systems"]
    }
    for name, row in systems.items():
        if "regret" in first["systems"][name]:
            row |= _adapted([c["systems"][name] for c in cells])
    largest = max((b for b, n in reached.items() if n <= WITHIN * min(reached.values())), default=0)
    best = min(timed, key=lambda batch: timed[batch]) if timed else 0
    return {
        **{key: first[key] for key in ("workload", "mix", "reference", "bounds", "ceiling")},
        "seeds": len(cells),
        "samples_to_target": samples,
        "noise_scale": {
            batch: _median([c["trajectories"][place]["noise_scale"] for c in cells])
            for batch, place in paths.items()
        },
        "ddp_largest_efficient": largest,
        "ddp_best": best,
        "systems": systems,
        "less_time": {
            rival: less_time(cells, OURS, rival)
            for rival in (at_reference, f"ddp at {largest}", f"ddp at {best}", *RIVALS, *BESIDE)
            if rival in systems
        },
        "slower_beyond_noise": {rival: slower(cells, OURS, rival) for rival in RIVALS},
        "faster_beyond_noise": {
            rival: slower(cells, rival, OURS) for rival in (*RIVALS, *BESIDE) if rival in systems
        },
        "balance": {
            batch: {
                name: {
                    part: _median([c["balance"][batch][name][part] for c in cells])
                    for part in parts
                }
                for name, parts in of.items()
            }
            for batch, of in first["balance"].items()
        },
    }


def _adapted(runs: Sequence[Row]) -> Row:
    after = [run["regret"]["after_ramp"] for run in runs]
    return {
        "regret": spread([run["regret"]["whole"] for run in runs]),
        "regret_after_ramp": spread([each for each in after if each is not None]),
        "last_batch": _median([run["batches"]["last"] for run in runs]),
        "changes": _median([run["changes"] for run in runs]),
        "steps": _median([run["steps"] for run in runs]),
    }


def less_time(cells: Sequence[Row], name: str, other: str) -> Row | None:
    """Return by what share of the other's seconds a system is sooner at the target."""
    return spread([None if r is None else 1 - r for r in _ratios(cells, name, other)])


def slower(cells: Sequence[Row], name: str, other: str) -> bool | None:
    """Return whether a system needs longer than another beyond noise: the 95 % interval of the
    mean logarithm of the paired ratios lies above 0, or it misses the target with a seed where the
    other does not. None where that cannot be told."""
    pairs = zip(_seconds(cells, name), _seconds(cells, other), strict=True)
    if any(own is None and of is not None for own, of in pairs):
        return True
    logs = [math.log(ratio) for ratio in _ratios(cells, name, other) if ratio is not None]
    if not 2 <= len(logs) <= len(_STUDENT) + 1:
        return None
    error = statistics.stdev(logs) / math.sqrt(len(logs)) * _STUDENT[len(logs) - 2]
    return statistics.mean(logs) > error


def spread(values: Sequence[float | None]) -> dict[str, float] | None:
    """Return the least, the median and the greatest; None where one is missing, or all."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return {"least": min(known), "median": statistics.median(known), "most": max(known)}


def _ratios(cells: Sequence[Row], name: str, other: str) -> list[float | None]:
    pairs = zip(_seconds(cells, name), _seconds(cells, other), strict=True)
    return [None if own is None or of is None else own / of for own, of in pairs]


def _seconds(cells: Sequence[Row], name: str) -> list[float | None]:
    return [cell["systems"][name]["seconds"] for cell in cells]


def _median(values: Sequence[float | None]) -> float | None:
    found = spread(values)
    return None if found is None else found["median"]


def _times(batch: int, steps: float | None) -> float | None:
    return None if steps is None else batch * steps
