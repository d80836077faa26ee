"""What decides, in virtual time, how the next step is split: ours, or another system's controller.

A system sees what a real one would: the devices' names, types and caps, the ranks' measurements,
and the estimated noise scale; never the truth behind them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from staves.errors import InputError, TrainingError, quoted
from staves.hardware import DeviceProfile, Pace
from staves.steptime import Device
from staves.training._arguments import bounded, integer, integers, positive_integer
from staves.training._batch_choice import BatchRange
from staves.training._environment import WorkerDevice
from staves.training._exchange import Exchange
from staves.training._knowledge import Knowledge
from staves.training._measuring import Measured, Measuring
from staves.training._planner import Plan, Planner
from staves.training._timing import StepRecord


@dataclass(frozen=True, slots=True)
class VirtualJob:
    """What a system knows of the job at its start.

    Args:
        devices: in rank order.
        caps: the most samples that each holds at once; None: no bound.
        batch: the total batch to begin with, in samples: the fixed or the reference one.
        allowed: the total batches to choose from; None: `batch` alone.

    Raises:
        InputError: `batch` is not a positive integer.
    """

    devices: tuple[WorkerDevice, ...]
    caps: tuple[int | None, ...]
    batch: int
    allowed: BatchRange | None = None

    def __post_init__(self) -> None:
        positive_integer("VirtualJob.batch", self.batch)

    @classmethod
    def on(cls, devices: Sequence[Device], batch: int, allowed: BatchRange | None) -> VirtualJob:
        """Return the job on the devices of a model, with nothing told of their times."""
        caps = tuple(device.max_batch for device in devices)
        return cls(tuple(_named(device) for device in devices), caps, batch, allowed)

    def check(self, decision: object) -> Decision:
        """Return what a system has decided, unless it must not.

        Raises:
            TrainingError: it is no decision, no split over these devices, a device cannot hold its
                share, the total batch is not allowed, or there are more micro-steps than samples.
        """
        if not isinstance(decision, Decision):
            raise TrainingError(
                f"the system decides {quoted(decision)}, which is no Decision",
                hint="let decide() return Decision(local_batches)",
            )
        batches = decision.local_batches
        holds = len(batches) == len(self.caps) and all(
            b >= 0 and (cap is None or b <= cap * decision.micro_steps)
            for b, cap in zip(batches, self.caps, strict=True)
        )
        allowed = self.allowed or BatchRange(self.batch, self.batch, self.batch)
        if not holds or not allowed.least <= decision.batch <= allowed.most:
            raise TrainingError(
                f"the system decides {list(batches)} in {decision.micro_steps} micro-steps: the"
                f" devices hold at once {list(self.caps)}, and a batch has {allowed.least} to"
                f" {allowed.most} samples",
                hint="mend the system; its job says what is allowed",
            )
        if decision.micro_steps > max(1, decision.batch):
            raise TrainingError(
                f"the system decides {decision.micro_steps} micro-steps for {decision.batch}"
                " samples",
                hint="mend the system: a micro-step has a sample at least",
            )
        return decision


@dataclass(frozen=True, slots=True)
class Situation:
    """Where the job stands before a step.

    Args:
        step: its number, from 0.
        clock: seconds of virtual time so far.
        noise_scale: the one to act on, in samples; None where the batch is fixed, and before it is
            known.

    Raises:
        InputError: one of them is negative, or no number.
    """

    step: int
    clock: float
    noise_scale: float | None

    def __post_init__(self) -> None:
        step = integer("Situation.step", self.step, "count steps from 0")
        bounded("Situation.step", step, math.inf, "count steps from 0")
        bounded("Situation.clock", self.clock, math.inf, "in seconds")
        if self.noise_scale is not None:
            bounded("Situation.noise_scale", self.noise_scale, math.inf, "in samples, or None")


@dataclass(frozen=True, slots=True)
class Decision:
    """How a step's batch is split: samples of each rank, in so many micro-steps.

    Raises:
        InputError: samples that are no integers, or micro-steps that are no positive one.
    """

    local_batches: tuple[int, ...]
    micro_steps: int = 1

    def __post_init__(self) -> None:
        hint = "samples of each rank, such as (24, 8)"
        batches = integers("Decision.local_batches", self.local_batches, hint)
        object.__setattr__(self, "local_batches", batches)
        micro_steps = integer("Decision.micro_steps", self.micro_steps, "1 or more")
        positive_integer("Decision.micro_steps", micro_steps, "1 or more")
        object.__setattr__(self, "micro_steps", micro_steps)

    @property
    def batch(self) -> int:
        """The total batch, in samples."""
        return sum(self.local_batches)


class System(ABC):
    """A controller of total batch and split; one object serves one job."""

    @abstractmethod
    def begin(self, job: VirtualJob) -> None:
        """The job starts."""

    @abstractmethod
    def decide(self, situation: Situation) -> Decision:
        """Return the batch and split of the next step; asked once for each."""

    @abstractmethod
    def measured(self, records: Sequence[StepRecord]) -> None:
        """Take in what the ranks have measured of a step, in rank order.

        Steps with the rest of an epoch are not measured.
        """


class Learner(System):
    """Staves itself: the planner and the measuring of every rank, as in a real job.

    Args:
        split: as of `staves.init`, without functions.
        declared: the devices are emulated: steps that their host holds up tell nothing.
        knowledge: of these devices, from an earlier job.

    Raises:
        InputError: `split` is none.

    Attributes:
        planners, measuring: of each rank.
        plans: every plan with the step from which on it holds.
        decisions: the steps before which something was decided.
        alarms: (since, noticed at) of devices that became slower or faster, in steps.
    """

    def __init__(
        self,
        split: Literal["auto", "even"] | Sequence[int] = "auto",
        *,
        declared: bool = False,
        knowledge: Knowledge | None = None,
    ) -> None:
        known = split in ("auto", "even") if isinstance(split, str) else isinstance(split, Sequence)
        if not known:
            raise InputError(
                f"Learner(split): {quoted(split)} is no split",
                hint='"auto", "even" or samples by rank',
            )
        self._split, self._declared, self._knowledge = split, declared, knowledge
        self.planners: list[Planner] = []
        self.measuring: list[Measuring] = []
        self.plans: list[tuple[int, Plan]] = []
        self.decisions: list[int] = []
        self.alarms: list[tuple[int, int]] = []
        self._exchange = _Exchange(list, 0)

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self.planners[0].plan

    def begin(self, job: VirtualJob) -> None:
        """Make the ranks."""
        fixed = None if self._split == "auto" else self._split
        world = len(job.devices)
        self.planners = [
            Planner(
                *(job.batch, job.devices, job.caps, fixed),
                knowledge=self._knowledge,
                allowed=job.allowed,
            )
            for _ in range(world)
        ]
        self.measuring = [Measuring(declared=self._declared) for _ in range(world)]
        self._exchange = _Exchange(lambda: [each.measured() for each in self.measuring[1:]], world)
        for rank, measuring in enumerate(self.measuring):
            measuring.begin_generation(self.planners[rank], rank, self._exchange, 0)
        self.plans.append((0, self.plan))

    def decide(self, situation: Situation) -> Decision:
        """Let the ranks decide, where that is due."""
        step = situation.step
        ranks = list(zip(self.measuring, self.planners, strict=True))
        for measuring in self.measuring:
            since = measuring.drifted_since
            if since is not None and (not self.alarms or self.alarms[-1][0] != since):
                self.alarms.append((since, step))
        if _alike([measuring.decision_due(planner, step) for measuring, planner in ranks]):
            self.decisions.append(step)
            noise_scale = situation.noise_scale
            if _alike([m.decide(p, self._exchange, step, noise_scale) for m, p in ranks]):
                self.plans.append((step, self.plan))
        return Decision(self.plan.local_batches, self.plan.micro_steps)

    def measured(self, records: Sequence[StepRecord]) -> None:
        """Give each rank its own record."""
        for measuring, record in zip(self.measuring, records, strict=True):
            if measuring.settled(record.step):
                measuring.take(record)


class _Exchange(Exchange):
    """Between ranks that are asked one after the other, rank 0 first, in one process."""

    def __init__(self, others: Callable[[], list[Measured]], world_size: int) -> None:
        # Not Exchange.__init__: there is no store.
        self.rank, self.world_size = 0, world_size
        self._others = others
        self._flags: set[str] = set()
        self._asked, self._told = 0, None

    def agree(self, own: Any, decide: Callable[[list[Any]], Any]) -> Any:
        """Return to every rank what rank 0 has made of what all have measured."""
        if self._asked % self.world_size == 0:
            self._told = decide([own, *self._others()])
        self._asked += 1
        return self._told

    def raise_flag(self, name: str) -> None:
        """Set a flag that every rank sees."""
        self._flags.add(name)

    def flagged(self, name: str) -> bool:
        """Whether it is set."""
        return name in self._flags


def _named(device: Device) -> WorkerDevice:
    profile = None
    if device.min_batch > 0:  # planners read the minimum there
        nothing = Pace(fixed=0.0, per_sample=1.0)
        profile = DeviceProfile(nothing, nothing, device.max_batch, device.min_batch)
    return WorkerDevice(device.name, device.type, profile)


def _alike(answers: Sequence[bool]) -> bool:
    """Return what all ranks answer: there is no way in which they may differ."""
    assert len(set(answers)) == 1, "ranks must agree"
    return answers[0]
