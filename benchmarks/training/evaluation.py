"""When a run reaches its target: by averaged weights, on progress and outside the clock."""

from __future__ import annotations

import math

import torch

from benchmarks.training.declared import AVERAGED_OVER, EVALUATED_EVERY, Workload
from benchmarks.training.workloads import Task
from staves.training import VirtualStep


class Evaluator:
    """Follow one run.

    Attributes:
        steps, seconds: at which the target was crossed, interpolated between two evaluations; None
            while it was not.
        loss: the last one, of held-out data.
        curve: every one, with the progress at which it was taken, in steps of the reference batch.
    """

    def __init__(self, task: Task, workload: Workload) -> None:
        self._task, self._workload = task, workload
        self._average = [p.detach().clone() for p in task.model.parameters()]
        self._progress, self._samples, self._due = 0.0, 0, 0
        self._before = (0.0, 0.0, math.inf)  # steps, seconds, loss
        self.steps: float | None = None
        self.seconds: float | None = None
        self.loss = math.inf
        self.curve: list[tuple[float, float]] = []

    @property
    def over(self) -> bool:
        """Whether the target is reached, or the run is given up."""
        return self.steps is not None or self._samples >= self._workload.most_samples

    def after(self, step: VirtualStep) -> None:
        """Take in the weights after a step."""
        share = 1 - math.exp((self._progress - step.progress) / AVERAGED_OVER)
        self._progress = step.progress
        self._samples += step.batch
        with torch.no_grad():
            for average, now in zip(self._average, self._task.model.parameters(), strict=True):
                average.lerp_(now, share)
        if self._samples >= self._due:
            self._due = self._samples + EVALUATED_EVERY * self._workload.reference
            self._evaluate(step)

    def _evaluate(self, step: VirtualStep) -> None:
        model = self._task.model
        with torch.no_grad():
            own = [p.clone() for p in model.parameters()]
            self._put(self._average)
            self.loss = float(self._task.loss(model, self._task.held_out))
            self._put(own)
        self.curve.append((step.progress, self.loss))
        steps, seconds, loss = self._before
        now = float(step.number + 1), step.clock, self.loss
        if self.loss <= self._workload.target:
            gone = (loss - self._workload.target) / (loss - self.loss) if loss < math.inf else 1.0
            self.steps = steps + gone * (now[0] - steps)
            self.seconds = seconds + gone * (now[1] - seconds)
        self._before = now

    def _put(self, values: list[torch.Tensor]) -> None:
        for parameter, value in zip(self._task.model.parameters(), values, strict=True):
            parameter.copy_(value)
