"""A decaying learning rate under an adaptive batch: `python -m benchmarks.training.schedules`.

A cosine schedule to 0 moves with progress. Compared at equal progress, and at more of it: the
reference batch, and a batch that adapts, as it is and with each remedy. Times are virtual, on three
devices at speeds 1 : 0.45 : 0.2. What is judged is the held-out loss at the end, of the last
weights and of their exponential average.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.training import checks
from benchmarks.training.declared import MIXES, WORKLOADS, truth
from benchmarks.training.schedule_tasks import TASKS, Scheduled
from benchmarks.training.systems.prescribed import Prescribed
from benchmarks.training.workloads import Task, as_they_are
from staves.training import Adaptive, Learner, System, VirtualTrainer
from staves.training._batch import LearningRateRule

SEEDS = (0, 1, 2, 3, 4)
AVERAGED_OVER = 0.03
"""Of the budget: the memory of the averaged weights, in progress."""
CAP_RATIO = 2**0.5
"""Of two caps that follow each other, where the cap moves."""
MIX = next(mix for mix in MIXES if len(mix.devices) == 3)


@dataclass(frozen=True)
class Variant:
    """A way to train.

    Args:
        most: the largest batch, in reference batches; 1: it is fixed; None: the task's.
        cap: the largest batch by the share of the budget that is over, as a share of the largest.
        longer: the budget, by the task's.
        scheduled: with the cosine; else at a constant rate.
        rule: of the learning rate.
    """

    most: int | None = None
    cap: Callable[[float], float] | None = None
    longer: float = 1.0
    scheduled: bool = True
    rule: LearningRateRule = "auto"


def cosine(over: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * min(1.0, over)))


def back(share: float) -> Callable[[float], float]:
    """Return a cap that goes back to the reference batch for the last share of the budget."""
    return lambda over: 0.0 if over > 1 - share else 1.0


VARIANTS = {
    "reference": Variant(1),
    "adaptive": Variant(),
    "adaptive, max x 4": Variant(4),
    "adaptive, max x 16": Variant(16),
    "cap by the schedule": Variant(cap=cosine),
    "back for a fifth": Variant(cap=back(0.2)),
    "square root": Variant(rule="square-root"),
    "adascale": Variant(rule="adascale"),
    "budget x 1.5": Variant(longer=1.5),
    "budget x 2": Variant(longer=2.0),
    "budget x 3": Variant(longer=3.0),
    "constant reference": Variant(1, scheduled=False),
    "constant adaptive": Variant(scheduled=False),
}


@dataclass
class Run:
    """How one run ended.

    Attributes:
        loss, averaged: held out, of the last weights and of the averaged ones.
        seconds: of virtual time.
        steps, samples: that it took.
        batches: at each tenth of the progress.
    """

    loss: float
    averaged: float
    seconds: float
    steps: int
    samples: int
    batches: list[int] = field(default_factory=list)


def train(of: Scheduled, variant: Variant, seed: int) -> Run:
    """Train one variant to the end of its budget."""
    task = of.make(seed, of.learning_rate)
    budget = round(variant.longer * of.budget)
    most = of.most if variant.most is None else variant.most * of.reference
    cap = variant.cap
    system: System = Learner()
    trainer: VirtualTrainer | None = None
    if cap is not None:

        def batch(_: object, own: int) -> int:
            over = 0.0 if trainer is None else trainer.progress / budget
            return min(own, _stepwise(of, cap(over)))

        system = Prescribed(batch)
    schedule = None
    if variant.scheduled:
        schedule = torch.optim.lr_scheduler.LambdaLR(task.optimizer, lambda n: cosine(n / budget))
    trainer = VirtualTrainer(
        *(task.model, task.optimizer, task.loss, task.data, truth(WORKLOADS[0], MIX)),
        batch=Adaptive(of.reference, max=most, learning_rate=variant.rule)
        if most > of.reference
        else of.reference,
        system=system,
        schedule=schedule,
        seed=seed,
        collate_fn=as_they_are,
        drop_last=True,
    )
    average = [p.detach().clone() for p in task.model.parameters()]
    run, before, memory = Run(0.0, 0.0, 0.0, 0, 0), 0.0, AVERAGED_OVER * of.budget
    for step in trainer.steps(progress=budget):
        run.steps += 1
        run.samples += step.batch
        if step.progress >= budget * len(run.batches) / 10:
            run.batches.append(step.batch)
        with torch.no_grad():
            share = 1 - math.exp((before - step.progress) / memory)
            for slow, now in zip(average, task.model.parameters(), strict=True):
                slow.lerp_(now, share)
        before = step.progress
    run.seconds, run.loss = trainer.clock, _held_out(task)
    with torch.no_grad():
        for now, slow in zip(task.model.parameters(), average, strict=True):
            now.copy_(slow)
    run.averaged = _held_out(task)
    return run


def _stepwise(of: Scheduled, share: float) -> int:
    """Return the cap in samples, one of a geometric row, so that it moves seldom."""
    wanted = math.log(max(1.0, share * of.most / of.reference), CAP_RATIO)
    return round(of.reference * CAP_RATIO ** math.floor(wanted + 1e-9))


def _held_out(task: Task) -> float:
    with torch.no_grad():
        return float(task.loss(task.model, task.held_out))


def measure(seeds: Sequence[int] = SEEDS) -> checks.Document:
    """Return every run, and each variant beside the reference batch, paired by seed."""
    tasks = {}
    for of in TASKS:
        runs: dict[str, list[Run]] = {}
        for name, variant in VARIANTS.items():
            checks.progress(f"schedules: {of.name}, {name}")
            runs[name] = [train(of, variant, seed) for seed in seeds]
        tasks[of.name] = {
            name: {**_summary(own, runs["reference"]), "runs": [vars(run) for run in own]}
            for name, own in runs.items()
        }
    return {"emulated": True, "seeds": list(seeds), "tasks": tasks}


def _summary(runs: Sequence[Run], reference: Sequence[Run]) -> dict[str, Any]:
    pairs = list(zip(runs, reference, strict=True))
    return {
        "loss": _spread([run.loss for run in runs]),
        "averaged": _spread([run.averaged for run in runs]),
        "gap": _spread([run.loss - beside.loss for run, beside in pairs]),
        "averaged_gap": _spread([run.averaged - beside.averaged for run, beside in pairs]),
        "times_as_fast": _spread([beside.seconds / run.seconds for run, beside in pairs]),
        "samples": statistics.median(run.samples / beside.samples for run, beside in pairs),
        "batches": [statistics.median(b) for b in zip(*(r.batches for r in runs), strict=False)],
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"least": min(values), "median": statistics.median(values), "most": max(values)}


def told(document: checks.Document) -> list[str]:
    """Return lines for people."""
    lines = []
    for task, variants in document["tasks"].items():
        lines.append(f"{task}: held-out loss; its gap to the reference batch, paired; averaged")
        for name, own in variants.items():
            loss, gap, averaged = own["loss"], own["gap"], own["averaged_gap"]
            lines.append(
                f"  {name:20} {loss['median']:.4f} ({loss['least']:.4f} to {loss['most']:.4f})"
                f" {gap['median']:+.4f} ({gap['least']:+.4f} to {gap['most']:+.4f})"
                f" {averaged['median']:+.4f}; {own['times_as_fast']['median']:.2f} x as fast,"
                f" {own['samples']:.2f} x the samples; batches"
                f" {' '.join(f'{batch:.0f}' for batch in own['batches'][1::2])}"
            )
    return lines


if __name__ == "__main__":
    checks.run("schedules", __doc__, measure, told)
