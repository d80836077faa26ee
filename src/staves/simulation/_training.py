"""One attempt of a training job on simulated time, step by step.

What is decided is decided by the trainer's own planner: which split, when it is measured, what is
learned of the devices. Durations come from what the job truly is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from staves.engines._base import Ended
from staves.hardware import Device
from staves.membership import SLACK
from staves.simulation._machine import Machine, Startup
from staves.steptime import Communication, Line, ring_share
from staves.training._environment import WorkerDevice
from staves.training._knowledge import Knowledge
from staves.training._measuring import KEPT
from staves.training._planner import SETTLE, WARM_UP, Planner
from staves.training._sampler import GlobalCursor
from staves.training._timing import StepRecord

_FREE = Communication((1.0,), (0.0,))


@dataclass(frozen=True, slots=True)
class TrainingTruth:
    """What a training job truly is.

    Args:
        batch: samples a step.
        samples: of its data set; the last batch of a pass may be short.
        epochs: passes over it.
        communication: of its gradients between `world_size` devices; a ring sends 2 (n - 1) / n of
            the bytes over each link.
        world_size: at least 2.
        lines: forward and backward pass by device type; types that are absent: as their declared
            profile says.
        compare: whether every generation measures an even split for a few steps.
    """

    batch: int
    samples: int
    epochs: int
    communication: Communication = _FREE
    world_size: int = 2
    lines: Mapping[str, tuple[Line, Line]] = field(default_factory=dict)
    compare: bool = False


@dataclass(frozen=True, slots=True)
class Overheads:
    """What running jobs costs beside their steps, in seconds.

    Args:
        start: of a core, for an attempt: its supervisor, an interpreter, libraries.
        worker: of a core, for each worker, once its attempt has started.
        cores: that all starting processes share; inf: each has its own.
        hear: until a running attempt has taken in what it was told.
        switch: from the last step of a generation to the begin of the next one's first.
        step: on top of each step that several devices make.
        epoch: between two passes over the data on one device, such as for an evaluation.
        shared_epoch: the same on several devices, which tell each other their losses.
        save: from the boundary at which an attempt is saved to its end.
        end: from the last step to the attempt's end.
    """

    start: float = 0.0
    worker: float = 0.0
    cores: float = math.inf
    hear: float = 0.0
    switch: float = 0.0
    step: float = 0.0
    epoch: float = 0.0
    shared_epoch: float = 0.0
    save: float = 0.0
    end: float = 0.0


@dataclass(frozen=True, slots=True)
class Saved:
    """What a checkpoint holds."""

    steps: int = 0
    epoch: int = 0
    position: int = 0
    knowledge: Knowledge = field(default_factory=Knowledge)
    next_plan: int = 0


class SimulatedTraining:
    """One attempt.

    Args:
        truth: of its job.
        overheads: of the cluster.
        machine: on which its workers start.
        devices: to begin with.
        saved: from which it goes on.
        now: when it is launched.
    """

    def __init__(
        self,
        truth: TrainingTruth,
        overheads: Overheads,
        machine: Machine,
        devices: Sequence[Device],
        saved: Saved,
        now: float,
    ) -> None:
        self.truth, self.overheads = truth, overheads
        self.devices = self.wanted = tuple(devices)
        self.request = self.generation = 0
        self.spans: list[dict[str, Any]] = []
        self.step_seconds: float | None = None
        self.steps, self.knowledge = saved.steps, saved.knowledge
        self.ended: Ended | None = None
        self.ended_at = math.inf
        self._next_plan = saved.next_plan
        self._cursor = GlobalCursor(truth.samples, 0, shuffle=False)
        self._cursor.epoch, self._cursor.position = saved.epoch, saved.position
        self._machine = machine
        self._startup = machine.start([(1, overheads.start), (len(devices), overheads.worker)], now)
        self._joining: dict[str, Startup] = {}
        self._heard = math.inf  # when it has taken in the newest resize
        self._switch: tuple[int, tuple[Device, ...]] | None = None
        self._stop: tuple[float, bool, float] | None = None
        self._at = now  # the last boundary
        self._planner: Planner | None = None
        self._plan_since = 0
        self._records: list[list[StepRecord]] = []

    # -- what it is told

    def resize(self, devices: Sequence[Device], request: int, now: float) -> None:
        """Have it change to these devices; newcomers start while it trains on."""
        self.request, self.wanted = request, tuple(devices)
        self._heard = now + self.overheads.hear
        present = {device.name for device in self.devices}
        new = [device.name for device in devices if device.name not in present]
        self._joining = {name: self._joining[name] for name in new if name in self._joining}
        if fresh := [name for name in new if name not in self._joining]:
            startup = self._machine.start([(len(fresh), self.overheads.worker)], now)
            self._joining |= dict.fromkeys(fresh, startup)

    def stop(self, *, save: bool, grace: float, now: float) -> None:
        """Have it end; told again it can only become more urgent."""
        at, before, until = self._stop or (now, save, math.inf)
        self._stop = at, save and before, min(until, now + grace)

    # -- what it is

    def starting(self) -> bool:
        """Whether its workers are still to come."""
        return self._startup.passed == 0 and self._startup.done_at is None

    @property
    def formed(self) -> bool:
        """Whether its first generation has been formed."""
        return self._planner is not None

    @property
    def saved(self) -> Saved:
        """What a checkpoint of it would hold now."""
        cursor = self._cursor
        return Saved(self.steps, cursor.epoch, cursor.position, self.knowledge, self._next_plan)

    @property
    def samples(self) -> int:
        """Samples that it has trained, over all passes."""
        return self._cursor.epoch * self._cursor.length + self._cursor.position

    def progress(self) -> dict[str, Any]:
        """Return its progress as a rank 0 tells it."""
        if self._planner is None:
            return {}
        plan, truth = self._planner.plan, self.truth
        return {
            "step": self.steps,
            "epoch": self._cursor.epoch,
            "samples": self.samples,
            "total_samples": truth.epochs * truth.samples,
            "batch": plan.batch,
            "loss": None,
            "local_batches": list(plan.local_batches),
            "predicted_step_seconds": plan.predicted_seconds,
            "even_step_seconds": plan.even_seconds,
            "even_step_source": "predicted",
            "metrics": {},
            "step_seconds": self.step_seconds,
        }

    # -- what happens

    def news(self, now: float, telling: int) -> tuple[object, ...]:
        """Return what changes only where something has happened but that steps were made."""
        return (
            self.starting(),
            self.generation,
            self.step_seconds is None,
            len(self.knowledge.lines),
            self.steps >= telling,
            self.ended_at <= now,
        )

    def advance(self, now: float) -> None:
        """Let everything happen that happens until `now`; the machine is there already."""
        while self.ended is None:
            if self._stop_early(now):
                return
            if self._planner is None:
                if not self._startup.done(now):
                    return
                assert self._startup.done_at is not None
                self._form(self.devices, self._startup.done_at)
                self._end_of_epoch()  # it may have been saved there
                continue
            seconds, records = self._step()
            if self._at + seconds > now:
                return
            self._commit(seconds, records)
            self._pass_boundary()

    def follow(self, stretches: Sequence[tuple[Sequence[Device], int]]) -> list[float]:
        """Train so many steps on these devices, then on those; return the seconds of each stretch.

        For an attempt that is fresh: how long a history of changes takes, whoever decided it. The
        pause before a stretch belongs to none. A history may be cut short by the end of training.
        """
        seconds = []
        for devices, steps in stretches:
            self._form(tuple(devices), self._at)
            begun = self._at
            for _ in range(steps):
                if self.ended is not None:
                    break
                self._commit(*self._step())
                self._decide()
                self._end_of_epoch()
            seconds.append(self._at - begun)
        return seconds

    def _stop_early(self, now: float) -> bool:
        """End it where no boundary is waited for: it is not to be saved, or cannot be in time."""
        if self._stop is None:
            return False
        told, save, until = self._stop
        at = told + self.overheads.hear if not (save and self.formed) else until
        comes = self._at + self._step()[0] if self.formed else math.inf
        if at > now or (save and self.formed and comes <= at):
            return False
        self._end(Ended("stopped"), at)
        return True

    def _step(self) -> tuple[float, list[StepRecord]]:
        """Return how long the step under way takes, and what each rank measures of it."""
        assert self._planner is not None
        plan, cursor = self._planner.plan, self._cursor
        cut = cursor.cut(plan.local_batches, epoch=cursor.epoch, start=cursor.position)
        assert cut is not None
        ready, wire = self._wire()
        passes = [
            self._passes(device, samples, plan.micro_steps)
            for device, samples in zip(self.devices, cut.local_batches, strict=True)
        ]
        ends = [
            max(a + share * p for a, p in passes) + sum(wire[j:]) for j, share in enumerate(ready)
        ]
        seconds = max(ends) + (self.overheads.step if len(passes) > 1 else 0.0)
        records = [
            StepRecord(
                step=self.steps,
                plan=plan.number,
                samples=samples,
                forward=a,
                backward=p,
                ready=tuple(share * p for share in ready),
                wire=wire,
                step_seconds=seconds,
                micro_steps=plan.micro_steps,
            )
            for samples, (a, p) in zip(cut.local_batches, passes, strict=True)
        ]
        return seconds, records

    def _passes(self, device: Device, samples: int, micro_steps: int) -> tuple[float, float]:
        """Return the seconds until a device's last backward pass, and of that."""
        each = samples / micro_steps
        if device.type.name in self.truth.lines:
            lines = self.truth.lines[device.type.name]
            forward, backward = (line.seconds(each) for line in lines)
        else:
            profile = device.type.profile
            assert profile is not None  # the engine has looked
            forward, backward = profile.forward.seconds(each), profile.backward.seconds(each)
        return micro_steps * forward + (micro_steps - 1) * backward, backward

    def _wire(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        known, devices = self.truth.communication, len(self.devices)
        factor = float(ring_share(devices) / ring_share(self.truth.world_size))
        return known.ready, tuple(seconds * factor for seconds in known.seconds)

    def _commit(self, seconds: float, records: list[StepRecord]) -> None:
        planner, cursor = self._planner, self._cursor
        assert planner is not None
        begun, step = self._at, self.steps
        cut = cursor.cut(planner.plan.local_batches, epoch=cursor.epoch, start=cursor.position)
        assert cut is not None
        cursor.commit(cut)
        self.steps, self._at = step + 1, begun + seconds
        span = self.spans[-1]
        settled = step >= self._plan_since + (WARM_UP if self._plan_since == 0 else SETTLE)
        if cut.batch == self.truth.batch and settled:
            self.step_seconds = span["step_seconds"] = seconds
            self._records = [
                [*own, record][-KEPT:] for own, record in zip(self._records, records, strict=True)
            ]
        span["steps"] = self.steps - span["first_step"]
        if span["steps"] == 1 and len(self.spans) > 1:
            span["pause_seconds"] = self._at - self.spans[-2]["until"]
        if self._switch is None and self._ready_at() <= self._at:
            # All members answer in the step under way: see `membership.SLACK`.
            self._switch = step + 1 + SLACK, self._next_members()

    def _next_members(self) -> tuple[Device, ...]:
        """Return who trains from the next change on: one who has the state is always among them."""
        wanted = {device.name for device in self.wanted}
        kept = [device for device in self.devices if device.name in wanted] or [self.devices[0]]
        present = {device.name for device in self.devices}
        return (*kept, *(device for device in self.wanted if device.name not in present))

    def _ready_at(self) -> float:
        """Return when all newcomers are there; inf where no change is wanted, or not yet."""
        if set(self.wanted) == set(self.devices):
            return math.inf
        times = [s.done_at for s in self._joining.values()]
        return max([self._heard, *(math.inf if t is None else t for t in times)])

    def _pass_boundary(self) -> None:
        planner = self._planner
        assert planner is not None
        if self._switch is not None and self.steps >= self._switch[0]:
            devices, self._switch = self._switch[1], None
            self._form(devices, self._at + self.overheads.switch)
            if self._ready_at() <= self._at:
                self._switch = self.steps + SLACK, self._next_members()
        if self._stop is not None and self._stop[1] and self._stop[0] <= self._at:
            self._end(Ended("saved"), self._at + self.overheads.save)
            return
        self._decide()
        self._end_of_epoch()

    def _end_of_epoch(self) -> None:
        cursor = self._cursor
        if cursor.position >= cursor.length:
            cursor.next_epoch()
            costs = self.overheads
            self._at += costs.epoch if len(self.devices) == 1 else costs.shared_epoch
        if cursor.epoch >= self.truth.epochs:
            self._end(Ended("finished", figures=self._figures()), self._at + self.overheads.end)

    def _decide(self) -> None:
        planner = self._planner
        assert planner is not None
        if len(self.devices) == 1 or not planner.due(self.steps):
            return
        plan, model = planner.decide(self._records)
        self._records = [[] for _ in self.devices]
        changed = planner.adopt(plan, self.steps, model)
        self.knowledge = planner.knowledge
        if changed:
            self._next_plan = max(self._next_plan, planner.plan.number + 1)
            self._plan_since = self.steps
            self._tell_plan()

    def _form(self, devices: tuple[Device, ...], now: float) -> None:
        """A generation begins to train at `now`."""
        if self.spans:
            self.spans[-1]["until"] = self._at
        self.devices, self._at = devices, now
        self._joining = {
            name: startup
            for name, startup in self._joining.items()
            if name not in {device.name for device in devices}
        }
        profiles = [device.type.profile for device in devices]
        self._planner = Planner(
            self.truth.batch,
            [WorkerDevice(d.name, d.type.name, d.type.profile) for d in devices],
            [None if profile is None else profile.max_batch for profile in profiles],
            knowledge=self.knowledge,
            since=self.steps,
            number=self._next_plan,
            compare=self.truth.compare,
        )
        self._next_plan += 1
        self._plan_since = self.steps
        self._records = [[] for _ in devices]
        self.generation += 1
        self.spans.append(
            {
                "generation": self.generation,
                "devices": [device.name for device in devices],
                "since": now,
                "until": None,
                "first_step": self.steps,
                "steps": 0,
                "step_seconds": None,
                "pause_seconds": None,
            }
        )
        self._tell_plan()

    def _tell_plan(self) -> None:
        assert self._planner is not None
        plan = self._planner.plan
        self.spans[-1] |= {
            "local_batches": list(plan.local_batches),
            "predicted_step_seconds": plan.predicted_seconds,
            "even_step_seconds": plan.even_seconds,
            "even_step_source": "predicted",
        }

    def _end(self, ended: Ended, at: float) -> None:
        self.ended, self.ended_at = ended, at
        if self.spans and self.spans[-1]["until"] is None:
            self.spans[-1]["until"] = at

    def _figures(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "samples": self.samples,
            "epochs": self._cursor.epoch,
            "rescales": self.generation - 1,
            "emulated": any(device.type.emulated for device in self.devices),
        }
