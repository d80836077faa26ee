"""Single runs: a loss trajectory at a fixed batch, its times anew, a run with an adaptive batch."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.training.declared import BALANCED_STEPS, Workload
from benchmarks.training.evaluation import Evaluator
from benchmarks.training.systems import DDP
from benchmarks.training.workloads import as_they_are
from staves.convergence import best_batch, efficiency
from staves.errors import TrainingError
from staves.steptime import Communication, Device, Line, StepTimeModel
from staves.training import (
    Adaptive,
    System,
    VirtualClock,
    VirtualJob,
    VirtualStep,
    VirtualTrainer,
    VirtualTruth,
)

ANY = VirtualTruth(
    StepTimeModel(
        tuple(Device(f"part-{i}", "part", Line(0.0, 1.0), Line(0.0, 1.0)) for i in range(2)),
        Communication((1.0,), (0.0,)),
    )
)
"""A trajectory needs no time, but groups of samples, for its noise scale."""


@dataclass(frozen=True)
class Trajectory:
    """How a workload learns at a fixed batch, whatever the devices.

    Attributes:
        steps: to the target, interpolated; None: it was not reached.
        noise_scale: the median of the run's second half, in samples: the critical batch. None: the
            gradient drowns in the noise.
        loss: held out, at the end.
    """

    batch: int
    steps: float | None
    noise_scale: float | None
    loss: float

    @classmethod
    def of(cls, run: dict[str, Any]) -> Trajectory:
        """Return the one that was kept."""
        return cls(run["batch"], run["steps"], run["noise_scale"], run["loss"])


def trajectory(workload: Workload, seed: int, batch: int) -> Trajectory:
    """Train at a fixed batch until the target."""
    run, evaluator = trainer(workload, seed, ANY, DDP(batch))
    scales = []
    for step in _steps(run, workload):
        evaluator.after(step)
        assert run.noise is not None
        scales.append(run.noise.scale)
        if evaluator.over:
            break
    scale = statistics.median(scales[len(scales) // 2 :])
    known = scale if math.isfinite(scale) else None
    return Trajectory(batch, evaluator.steps, known, evaluator.loss)


def _steps(run: VirtualTrainer, workload: Workload) -> Iterator[VirtualStep]:
    """Yield the steps until the run is given up; one that diverges ends, and misses its target.

    Raises:
        TrainingError: it could not even begin.
    """
    taken = 0
    try:
        for step in run.steps(workload.most_samples // workload.reference):
            taken += 1
            yield step
    except TrainingError as error:
        if not taken:
            raise
        print(f"benchmarks: given up after {taken} steps: {error}", file=sys.stderr)


def timed(of: Trajectory, truth: VirtualTruth, system: System, seed: int) -> float | None:
    """Return the seconds in which the trajectory reaches its target with another system, on the
    truth's devices; None where it does not."""
    if of.steps is None:
        return None
    ends = stepped(truth, system, of.batch, seed, steps=math.ceil(of.steps))
    return float(np.interp(of.steps, range(len(ends)), ends))


def stepped(
    truth: VirtualTruth, system: System, batch: int, seed: int, *, steps: int = BALANCED_STEPS
) -> list[float]:
    """Return the clock before and after every step at a fixed batch, shape (steps + 1,)."""
    clock = VirtualClock(truth, system, VirtualJob.on(truth.model.devices, batch, None), seed=seed)
    ends = [0.0]
    for _ in range(steps):
        clock.decide()
        clock.advance()
        ends.append(clock.seconds)
    return ends


def adaptive(workload: Workload, truth: VirtualTruth, system: System, seed: int) -> dict[str, Any]:
    """Train with a batch that adapts until the target."""
    run, evaluator = trainer(workload, seed, truth, system)
    steps = []
    for step in _steps(run, workload):
        evaluator.after(step)
        steps.append(step)
        if evaluator.over:
            break
    return {
        "seconds": evaluator.seconds,
        "steps": evaluator.steps,
        "loss": evaluator.loss,
        "batches": {"median": statistics.median(s.batch for s in steps), "last": steps[-1].batch},
        "noise_scale": steps[-1].noise_scale,
        "changes": sum(step.pause_seconds > 0 for step in steps),
        "regret": asdict(regret(workload, truth, steps)),
    }


@dataclass(frozen=True)
class Regret:
    """Goodput lost on the run's own trajectory, as a share of the best: of the whole run, and after
    the ramp, which ends where the batch first is half the best one (None: it never is)."""

    whole: float
    after_ramp: float | None


def regret(workload: Workload, truth: VirtualTruth, steps: Sequence[VirtualStep]) -> Regret:
    """Weigh each step's true goodput by its time, beside the best at the same noise scale."""
    reference = workload.reference
    known = next((s.noise_scale for s in steps if s.noise_scale is not None), float(reference))
    lost, best_sum, ramp_over = [], [], None
    for place, step in enumerate(steps):
        known = step.noise_scale if step.noise_scale is not None else known
        model = truth.at(step.number, step.clock - step.seconds)
        found = _best(model, float(f"{known:.2g}"), reference, workload.max_batch)
        if ramp_over is None and step.batch >= found[0] / 2:
            ramp_over = place
        own = step.batch / model.step_seconds(step.local_batches)
        seconds = step.seconds + step.pause_seconds
        # At the rounded scale both, so that the best is the best.
        worth = efficiency(float(f"{known:.2g}"), step.batch, reference)
        lost.append(seconds * (found[1] - own * worth))
        best_sum.append(seconds * found[1])
    after = None if ramp_over is None else sum(lost[ramp_over:]) / sum(best_sum[ramp_over:])
    return Regret(sum(lost) / sum(best_sum), after)


@cache
def _best(model: StepTimeModel, noise_scale: float, reference: int, most: int) -> tuple[int, float]:
    best = best_batch(model, noise_scale, reference, most)
    return best.batch, best.goodput


def trainer(
    workload: Workload, seed: int, truth: VirtualTruth, system: System
) -> tuple[VirtualTrainer, Evaluator]:
    task = workload.make(seed, workload.learning_rate)
    trainer = VirtualTrainer(
        *(task.model, task.optimizer, task.loss, task.data, truth),
        batch=Adaptive(workload.reference, max=workload.max_batch),
        system=system,
        seed=seed,
        collate_fn=as_they_are,
        drop_last=True,
    )
    return trainer, Evaluator(task, workload)
