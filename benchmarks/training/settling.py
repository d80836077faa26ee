"""Steps to the optimal split under a batch that keeps changing: `python -m
benchmarks.training.settling`.

The total batch doubles again and again, and then moves; a split counts as optimal where its
undisturbed step is within 1 % of the best one's. Ours against LB-BSP's controller: as it stands in
`systems/lb_bsp.py`, and at every gain of a grid, of which the best in hindsight is shown beside it;
so is the best proportional controller, which moves all devices at once. Whatever the batch changes
to, the controllers' shares are kept: they start from the proportions they have found.

Then the step where a controller that evens out computing times ends, on devices whose ratios of
forward to backward time differ fivefold and whose steps are bound by communication.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks.training import checks
from benchmarks.training.declared import JITTER, MIXES, WORKLOADS, Mix, truth
from benchmarks.training.systems.lb_bsp import LBBSP
from benchmarks.training.systems.prescribed import Prescribed
from benchmarks.training.systems.shares import evenly, proportionally, speeds
from staves.steptime import Communication, Device, Line, StepTimeModel, integer_split
from staves.training import (
    Decision,
    Learner,
    Situation,
    StepRecord,
    System,
    VirtualClock,
    VirtualJob,
    VirtualTruth,
)
from staves.training._batch_choice import BatchRange

SEEDS = (0, 1, 2)
OPTIMAL = 0.01
TIMES = (1, 2, 4, 8, 16, 32, 64, 16, 48, 8, 32, 12, 64, 24)
"""Of the reference batch: doubled, then moved."""
STEPS = 40
"""Of each batch; our learner has its first model after 24."""
WINDOWS = (1, 2, 5, 10)
"""Steps between two moves of a controller."""
MOVES = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Of the batch, in the first move of LB-BSP's controller."""
GAINS = (0.25, 0.5, 1.0, 1.5)
"""Share of the way to the split by measured speeds that the proportional controller goes."""
DECLARED = (5, 0.05)
"""Window and first move of `systems/lb_bsp.py`."""

DRAWS, DEVICES, UNEQUAL_BATCH, BUCKETS = 40, 4, 256, 8
RATIOS = (1 / 5, 1.0)
"""The least and the greatest ratio of a forward to a backward time; every draw has both."""
FIXED = 0.05
"""Of a device's computing at an even share: what does not grow with the samples."""
WIRE = 1.25
"""All buckets' seconds on the wire, by the computing time of the split that evens that out."""
SETTLED = 300
"""Steps after which all have settled, and as many for the mean."""

Split = tuple[int, ...]


class Following(LBBSP):
    """LB-BSP's controller under a batch that changes.

    Args:
        window: steps between two moves.
        move: of the batch, in the first move after a change.
    """

    def __init__(self, batch: Callable[[int], int], window: int, move: float) -> None:
        super().__init__(batch(0))
        self._total, self._window, self._first_move = batch, window, move

    def begin(self, job: VirtualJob) -> None:
        super().begin(job)
        self._start()

    def decide(self, situation: Situation) -> Decision:
        total = self._total(situation.step)
        if total != sum(self._split):
            self._split = list(proportionally(total, [max(share, 0.5) for share in self._split]))
            self._start()
        elif len(self._steps) == self._window:
            self._balance()
            self._steps.clear()
        return Decision(tuple(self._split))

    def _start(self) -> None:
        self._steps.clear()
        self._move = max(1, round(self._first_move * sum(self._split)))
        self._last = (-1, -1)


class AtOnce(System):
    """All devices move at once: part of the way to the split by the speeds just measured.

    With a gain of 1 this is how LB-BSP sizes batches where time is proportional to the samples.
    """

    def __init__(self, batch: Callable[[int], int], window: int, gain: float) -> None:
        self._total, self._window, self._gain = batch, window, gain
        self._steps: list[Sequence[StepRecord]] = []

    def begin(self, job: VirtualJob) -> None:
        self._split = evenly(self._total(0), len(job.devices))

    def decide(self, situation: Situation) -> Decision:
        total, now = self._total(situation.step), np.maximum(self._split, 0.5)
        if total != sum(self._split):
            self._split = proportionally(total, now.tolist())
            self._steps.clear()
        elif len(self._steps) == self._window:
            target = np.array(proportionally(total, speeds(self._steps)))
            moved = np.maximum(now + self._gain * (target - now), 0.5)
            self._split = proportionally(total, moved.tolist())
            self._steps.clear()
        return Decision(self._split)

    def measured(self, records: Sequence[StepRecord]) -> None:
        self._steps.append(records)


@dataclass(frozen=True)
class Settling:
    """How one system does, each number a median over the seeds.

    Attributes:
        reached: steps from each change of the batch to the first optimal split, in turn; all of a
            batch's where none was.
        missed: batches at which no split was optimal.
        outside: steps of the run whose split was not optimal.
        after_first: of these, those after the first batch.
        longer: how much longer the run's steps were than with the optimal splits, undisturbed and
            without pauses.
        changes: of the split, each of which is a pause.
    """

    reached: list[float]
    missed: float
    outside: float
    after_first: float
    longer: float
    changes: float


def measure() -> checks.Document:
    """Return the figures of both parts."""
    mixes = {}
    for mix in MIXES:
        checks.progress(f"settling: a changing batch on {mix.name}")
        mixes[mix.name] = changing(mix)
    checks.progress("settling: unequal ratios of forward to backward")
    return {"emulated": True, "mixes": mixes, "unequal": unequal()}


def changing(mix: Mix, seeds: Sequence[int] = SEEDS) -> dict[str, Any]:
    """Return how each system follows the changes."""
    workload = WORKLOADS[0]
    of = truth(workload, mix)
    batches = [times * workload.reference for times in TIMES]
    most = max(batches)

    def batch(step: int) -> int:
        return batches[min(step // STEPS, len(batches) - 1)]

    systems: dict[str, Callable[[], System]] = {
        "ours": lambda: Prescribed(lambda situation, own: batch(situation.step)),
        **{
            f"lb-bsp {window} {move}": lambda w=window, m=move: Following(batch, w, m)  # type: ignore[misc]
            for window in WINDOWS
            for move in MOVES
        },
        **{
            f"at once {window} {gain}": lambda w=window, g=gain: AtOnce(batch, w, g)  # type: ignore[misc]
            for window in WINDOWS
            for gain in GAINS
        },
    }
    found = {}
    for name, make in systems.items():
        runs = []
        for seed in seeds:
            job = VirtualJob.on(
                of.model.devices, batches[0], BatchRange(batches[0], batches[0], most)
            )
            clock = VirtualClock(of, make(), job, seed=seed)
            runs.append(settled(of, _splits(clock, STEPS * len(batches))))
        found[name] = _median(runs)

    def best(kind: str) -> str:
        return min((n for n in found if n.startswith(kind)), key=lambda n: found[n].outside)

    shown = {
        "ours": found["ours"],
        "lb-bsp": found["lb-bsp {} {}".format(*DECLARED)],
        best("lb-bsp"): found[best("lb-bsp")],
        best("at once"): found[best("at once")],
    }
    return {
        "batches": batches,
        "steps_of_each": STEPS,
        "systems": {name: vars(own) for name, own in shown.items()},
        "grid": {name: own.outside for name, own in found.items()},
    }


def _splits(clock: VirtualClock, steps: int) -> list[Split]:
    splits = []
    for _ in range(steps):
        decision, _ = clock.decide()
        clock.advance()
        splits.append(decision.local_batches)
    return splits


def settled(of: VirtualTruth, splits: Sequence[Split]) -> Settling:
    """Return how a run's splits stand to the optimal ones."""
    excess = [_excess(of, step, split) for step, split in enumerate(splits)]
    outside = [lost > OPTIMAL for lost in excess]
    changes = [0, *(s for s in range(1, len(splits)) if sum(splits[s]) != sum(splits[s - 1]))]
    reached, missed = [], 0
    for start, stop in zip(changes, [*changes[1:], len(splits)], strict=True):
        own = outside[start:stop]
        missed += all(own)
        reached.append(float(len(own) if all(own) else own.index(False)))
    first = changes[1] if len(changes) > 1 else len(splits)
    return Settling(
        reached,
        missed,
        sum(outside),
        sum(outside[first:]),
        statistics.fmean(excess),
        sum(a != b for a, b in itertools.pairwise(splits)),
    )


def _excess(of: VirtualTruth, step: int, split: Split) -> float:
    model = of.at(step, 0.0)
    return model.step_seconds(split) / _best(model, sum(split)) - 1


@cache
def _best(model: StepTimeModel, batch: int) -> float:
    return integer_split(model, batch).step_seconds


def _median(runs: Sequence[Settling]) -> Settling:
    def middle(name: str) -> float:
        return float(statistics.median(getattr(run, name) for run in runs))

    reached = [statistics.median(own) for own in zip(*(r.reached for r in runs), strict=True)]
    return Settling(
        reached, *map(middle, ("missed", "outside", "after_first", "longer", "changes"))
    )


def unequal(draws: int = DRAWS) -> dict[str, Any]:
    """Return how much faster our settled steps are than those of evened out computing times."""
    rows = []
    for seed in range(draws):
        model = _drawn(np.random.default_rng(seed))
        even = integer_split(_computing(model), UNEQUAL_BATCH).local_batches
        best = integer_split(model, UNEQUAL_BATCH)
        of = VirtualTruth(model, JITTER)
        ends = {
            name: _mean_step(of, system, seed)
            for name, system in (
                ("ours", Learner()),
                ("lb-bsp", Following(lambda step: UNEQUAL_BATCH, *DECLARED)),
            )
        }
        bound = model.bottlenecks(best.local_batches)
        rows.append(
            {
                "communication_bound": sum(b == "communication" for b in bound),
                "evened_out_over_best": model.step_seconds(even) / best.step_seconds,
                "lb_bsp_over_ours": ends["lb-bsp"] / ends["ours"],
                "ours_over_best": ends["ours"] / best.step_seconds,
                "lb_bsp_over_evened_out": ends["lb-bsp"] / model.step_seconds(even),
            }
        )
    spread = {
        name: dict(
            zip(("least", "median", "most"), _quantiles([r[name] for r in rows]), strict=True)
        )
        for name in rows[0]
    }
    return {"draws": draws, "devices": DEVICES, "ratios": RATIOS, "summary": spread, "rows": rows}


def _drawn(random: np.random.Generator) -> StepTimeModel:
    """Return devices at speeds of 0.2 to 1 whose forward to backward ratios differ fivefold."""
    low, high = np.log(RATIOS)
    ratios = np.exp([low, high, *random.uniform(low, high, DEVICES - 2)])
    devices = []
    for place, (ratio, speed) in enumerate(
        zip(ratios, random.uniform(0.2, 1, DEVICES), strict=True)
    ):
        per_sample = 1e-3 / speed
        fixed = FIXED * per_sample * UNEQUAL_BATCH / DEVICES
        forward = float(ratio / (1 + ratio))
        lines = [Line(share * fixed, share * per_sample) for share in (forward, 1 - forward)]
        devices.append(Device(f"device-{place}", f"type-{place}", lines[0], lines[1]))
    ready = tuple((j + 1) / BUCKETS for j in range(BUCKETS))
    model = StepTimeModel(tuple(devices), Communication(ready, (0.0,) * BUCKETS))
    wire = WIRE * integer_split(_computing(model), UNEQUAL_BATCH).step_seconds / BUCKETS
    return replace(model, communication=Communication(ready, (wire,) * BUCKETS))


def _computing(model: StepTimeModel) -> StepTimeModel:
    """Return the model whose steps are nothing but computing."""
    return replace(model, communication=Communication((1.0,), (0.0,)))


def _mean_step(of: VirtualTruth, system: System, seed: int) -> float:
    """Return the undisturbed step, the mean over the splits of a settled run."""
    job = VirtualJob.on(of.model.devices, UNEQUAL_BATCH, None)
    splits = _splits(VirtualClock(of, system, job, seed=seed), 2 * SETTLED)[SETTLED:]
    return statistics.fmean(of.model.step_seconds(split) for split in splits)


def _quantiles(values: Sequence[float]) -> tuple[float, float, float]:
    return min(values), statistics.median(values), max(values)


def told(document: checks.Document) -> list[str]:
    """Return lines for people."""
    lines = []
    for mix, own in document["mixes"].items():
        lines.append(f"{mix}: batches {own['batches']}, {own['steps_of_each']} steps each")
        for name, system in own["systems"].items():
            reached = " ".join(f"{steps:.0f}" for steps in system["reached"])
            lines.append(
                f"  {name:14} outside {system['outside']:.0f} ({system['after_first']:.0f} after"
                f" the first batch), {100 * system['longer']:.2f} % longer,"
                f" {system['changes']:.0f} changes; steps to the optimum: {reached}; never at"
                f" {system['missed']:.0f} batches"
            )
    unequal = document["unequal"]
    lines.append(f"unequal ratios, {unequal['draws']} draws: least, median, most")
    for name, of in unequal["summary"].items():
        lines.append(f"  {name:24} {of['least']:.3f} {of['median']:.3f} {of['most']:.3f}")
    return lines


if __name__ == "__main__":
    checks.run("settling", __doc__, measure, told)
