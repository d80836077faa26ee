"""Jobs in virtual time without gradients: the learner on records of a truth that is declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from staves.steptime import Communication, Device, Line, StepTimeModel, integer_split
from staves.training._environment import WorkerDevice
from staves.training._measuring import Measuring
from staves.training._planner import Plan, Planner
from staves.training._virtual_system import Learner, Situation, VirtualJob
from staves.training._virtual_truth import VirtualTruth, slowed, take_step


def truth(
    speeds: Sequence[float], ready: Sequence[float], wire: Sequence[float], fixed: float = 0.004
) -> StepTimeModel:
    """Return a model of devices with these forward seconds a sample, twice that backward."""
    devices = [
        Device(f"device-{i}", "x", Line(fixed, speed), Line(1.5 * fixed, 2 * speed))
        for i, speed in enumerate(speeds)
    ]
    return StepTimeModel(tuple(devices), Communication(tuple(ready), tuple(wire)))


class LearnerJob:
    """Ranks that train together in virtual time.

    Args:
        model: the truth.
        batch: the total batch, in samples.
        noise: relative standard deviation of every phase.
        slowed: from a step on, how many times slower a device is: (step, rank) -> factor.
        spoils: the host's delay in a step, seconds: (step, rank) -> delay.
        declared: the devices are emulated.
    """

    def __init__(
        self,
        model: StepTimeModel,
        batch: int,
        *,
        noise: float,
        seed: int = 0,
        slowed: Callable[[int, int], float] = lambda step, rank: 1.0,
        spoils: Callable[[int, int], float] = lambda step, rank: 0.0,
        declared: bool = False,
    ) -> None:
        self.model, self.batch = model, batch
        self.noise = VirtualTruth(model, noise).noise(np.random.default_rng(seed))
        self.slowed, self.spoils = slowed, spoils
        self.step = 0
        self.learner = Learner(declared=declared)
        devices = tuple(WorkerDevice(device.name, device.type) for device in model.devices)
        self.ranks = range(len(devices))
        self.learner.begin(VirtualJob(devices, (None,) * len(devices), batch))
        self.step_seconds: list[float] = []

    @property
    def plan(self) -> Plan:
        return self.learner.plan

    @property
    def plans(self) -> list[tuple[int, Plan]]:
        return self.learner.plans

    @property
    def planners(self) -> list[Planner]:
        return self.learner.planners

    @property
    def measuring(self) -> list[Measuring]:
        return self.learner.measuring

    @property
    def decisions(self) -> list[int]:
        return self.learner.decisions

    @property
    def alarms(self) -> list[tuple[int, int]]:
        return self.learner.alarms

    def train(self, steps: int) -> LearnerJob:
        for _ in range(steps):
            decision = self.learner.decide(Situation(self.step, sum(self.step_seconds), None))
            records = take_step(
                self.truth_at(self.step),
                decision.local_batches,
                step=self.step,
                plan=self.plan.number,
                noise=self.noise,
                delays=[self.spoils(self.step, rank) for rank in self.ranks],
            )
            self.step_seconds.append(records[0].step_seconds)
            self.learner.measured(records)
            self.step += 1
        return self

    def truth_at(self, step: int) -> StepTimeModel:
        return slowed(self.model, [self.slowed(step, rank) for rank in self.ranks])

    def regret(self) -> float:
        """Return how much longer a step takes than with the best split of the truth by now."""
        now = self.truth_at(self.step)
        best = integer_split(now, self.batch).step_seconds
        return now.step_seconds(self.plan.local_batches) / best - 1
