"""How well a run learns its devices: on three declared mixes, by `python -m benchmarks.learning`.

For each mix, three runs. One trains: predicted step times against measured ones (means of 10 steps)
after the two probe phases, and the regret of the chosen split. One tries splits in turn: the chosen
one, the best of the declared times, and neighbours of both, for the regret as measured. One has
its first device slowed twofold in mid-run, and freed again: the steps until the split is balanced
anew. Compute durations are declared; collectives and processes are real.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.launch import staves_run
from benchmarks.scripts.learning_job import BLOCK
from staves.hardware import Cluster, read_cluster
from staves.steptime import Communication, Device, Line, StepTimeModel, integer_split

HERE = Path(__file__).parent
MIXES = sorted((HERE / "learning_mixes").glob("*.yaml"))
SLOW_FROM, SLOW_UNTIL = 90, 150
BALANCED = 0.05
"""A split counts as balanced anew when its declared step is within this of the best one."""

STALL = 1.3
"""A step of this many medians is a stall of the machine: no device is as slow for one step."""

Split = tuple[int, ...]


def measure(
    mixes: list[Path] = MIXES, batch: int = 64, steps: int = 180, rounds: int = 6
) -> dict[str, Any]:
    """Return the figures of every mix."""
    results = {}
    for mix in mixes:
        print(f"benchmarks: learning {mix.stem} ...", file=sys.stderr, flush=True)
        results[mix.stem] = _mix(mix, batch, steps, rounds)
    return {"emulated": True, "batch": batch, "mixes": results}


def _mix(mix: Path, batch: int, steps: int, rounds: int) -> dict[str, Any]:
    figures, story = _run(mix, batch, steps)
    knowledge = story["knowledge"]
    communication = Communication(tuple(knowledge["ready"]), tuple(knowledge["seconds"]))
    truth = _declared(read_cluster(mix), communication)
    best = integer_split(truth, batch)
    chosen: Split = tuple(figures["local_batches"])
    return {
        "local_batches": chosen,
        "best_local_batches": best.local_batches,
        "regret_declared": truth.step_seconds(chosen) / best.step_seconds - 1,
        "regret_searched": _search(mix, batch, rounds, chosen, best.local_batches),
        "prediction": _prediction(story["rows"]),
        "deadlines": figures["deadlines"],
        "void": figures["void"],
        "drift": _drift(mix, batch, truth),
    }


def _run(mix: Path, batch: int, steps: int, *arguments: str) -> tuple[dict[str, Any], Any]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "story.json"
        figures = staves_run(
            HERE / "scripts" / "learning_job.py",
            mix,
            *("--batch", str(batch), "--output", str(output), "--steps", str(steps)),
            *arguments,
        )
        return figures, json.loads(output.read_text())


def _declared(
    cluster: Cluster, communication: Communication, slow: int = -1, factor: float = 1.0
) -> StepTimeModel:
    devices = []
    for rank, device in enumerate(cluster.devices()):
        profile, times = device.type.profile, factor if rank == slow else 1.0
        assert profile is not None
        forward, backward = (
            Line(times * pace.fixed, times * pace.per_sample, times * pace.floor)
            for pace in (profile.forward, profile.backward)
        )
        devices.append(Device(device.name, device.type.name, forward, backward))
    return StepTimeModel(tuple(devices), communication)


def _blocks(rows: list[Any]) -> list[tuple[Any, list[float]]]:
    """Return (row, step times) of every plan and prediction; the first steps are left out."""
    blocks = []
    for _, own in itertools.groupby(rows, key=lambda row: row[1:]):
        steps = list(own)
        times = [b[0] - a[0] for a, b in itertools.pairwise(steps)]
        if len(times) > 1:
            blocks.append((steps[-1], times[1:]))
    return blocks


def _prediction(rows: list[Any]) -> dict[str, Any]:
    """Return relative errors of the predicted step against means of 10 steps.

    Of all steps; and without those that the machine stalled: STALL times the median or more.
    """
    errors: dict[str, list[float]] = {"all": [], "without_stalls": []}
    steps = stalled = 0
    for (_, _, _, predicted), times in _blocks(rows):
        if predicted is None:
            continue
        limit = STALL * statistics.median(times)
        smooth = [seconds for seconds in times if seconds < limit]
        steps, stalled = steps + len(times), stalled + len(times) - len(smooth)
        for name, some in (("all", times), ("without_stalls", smooth)):
            for first in range(0, len(some) - 9, 10):
                mean = statistics.fmean(some[first : first + 10])
                errors[name].append(abs(predicted / mean - 1))
    return {
        "steps": steps,
        "stalled": stalled,
        **{
            name: dict(zip(("p50", "p95"), map(float, np.percentile(own, [50, 95])), strict=True))
            for name, own in errors.items()
        },
    }


def _search(mix: Path, batch: int, rounds: int, chosen: Split, best: Split) -> dict[str, Any]:
    """Measure the chosen split beside others in one run, in turn: medians of all their steps."""
    candidates = list(dict.fromkeys([chosen, best, *_neighbours(chosen)]))
    steps = BLOCK * len(candidates) * rounds + 1
    figures, story = _run(mix, batch, steps, "--search", json.dumps(candidates))
    seconds: dict[Split, list[float]] = {}
    for (_, _, split, _), times in _blocks(story["rows"])[1:]:
        seconds.setdefault(tuple(split), []).extend(times)
    medians = {split: statistics.median(own) for split, own in seconds.items()}
    fastest = min(medians, key=lambda split: medians[split])
    return {
        "regret": medians[chosen] / medians[fastest] - 1,
        "fastest": fastest,
        "splits": len(candidates),
        "void": figures["void"],
    }


def _neighbours(split: Split, share: float = 0.06) -> list[Split]:
    """Return splits with some samples moved from each device to the next."""
    moved = []
    for i, j in itertools.permutations(range(len(split)), 2):
        if (j - i) % len(split) == 1 or (i - j) % len(split) == 1:
            other = list(split)
            few = max(1, round(share * split[i]))
            other[i], other[j] = other[i] - few, other[j] + few
            moved.append(tuple(other))
    return moved


def _drift(mix: Path, batch: int, truth: StepTimeModel) -> dict[str, Any]:
    """Slow the first device down twofold and free it again; count the steps to a new balance."""
    slowing = ("--slow-rank", "0", "--slow", str(SLOW_FROM), str(SLOW_UNTIL))
    figures, story = _run(mix, batch, SLOW_UNTIL + 60, *slowing)
    splits = [tuple(row[2]) for row in story["rows"]]
    slow = _declared(read_cluster(mix), truth.communication, slow=0, factor=2.0)
    return {
        "slowed": _steps_until_balanced(splits, SLOW_FROM, SLOW_UNTIL, slow, batch),
        "freed": _steps_until_balanced(splits, SLOW_UNTIL, len(splits), truth, batch),
        "void": figures["void"],
    }


def _steps_until_balanced(
    splits: list[Split], first: int, last: int, model: StepTimeModel, batch: int
) -> int | None:
    best = integer_split(model, batch).step_seconds
    for step in range(first, last):
        if model.step_seconds(splits[step]) <= (1 + BALANCED) * best:
            return step - first
    return None


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
