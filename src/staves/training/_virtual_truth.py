"""What devices do in virtual time: a declared truth, and the measurements that ranks have of it.

Pure: no torch, no clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from staves.documents import LONGEST_SECONDS, suggestion
from staves.errors import InputError, quoted
from staves.steptime import Device, Line, StepTimeModel
from staves.training._arguments import bounded, instance, integer, number
from staves.training._timing import StepRecord

Unit = Literal["steps", "seconds"]

_MOST_JITTER = 10.0  # one time in six is 20,000 times as long then; far beyond, times overflow


@dataclass(frozen=True, slots=True)
class Contention:
    """Others compute on one device: for a while it is that many times slower.

    Args:
        device: its place in the truth's model.
        factor: on all of its times; 1 is undisturbed.
        start, stop: from when until before when.
        unit: what these count: training steps, or seconds of the virtual clock.

    Raises:
        InputError: the device is no place, the factor is not positive and finite, `stop` lies
            before `start`, or there is no such unit.
    """

    device: int
    factor: float
    start: float = 0.0
    stop: float = math.inf
    unit: Unit = "steps"

    def __post_init__(self) -> None:
        integer("Contention.device", self.device, "the device's place in the model, from 0")
        factor = number("Contention.factor", self.factor, "3.0 is three times slower")
        if not (factor > 0 and math.isfinite(factor)):
            raise InputError(
                f"Contention.factor: {quoted(self.factor)} is not positive and finite",
                hint="3.0 is three times slower",
            )
        for name in ("start", "stop"):
            number(f"Contention.{name}", getattr(self, name), "count steps or seconds")
        if not self.start <= self.stop:
            raise InputError(
                f"Contention: it ends at {self.stop}, before it starts, {self.start}",
                hint="start and stop are both counted from the beginning",
            )
        if self.unit not in get_args(Unit):
            raise InputError(
                f"Contention.unit: {quoted(self.unit)} is no unit",
                hint=suggestion(str(self.unit), get_args(Unit)),
            )

    def at(self, step: int, clock: float) -> float:
        """Return the factor in that step, which begins at `clock` seconds."""
        now = step if self.unit == "steps" else clock
        return self.factor if self.start <= now < self.stop else 1.0


@dataclass(frozen=True)
class VirtualTruth:
    """How long steps take in virtual time; the trained system sees measurements of it only.

    Args:
        model: devices and gradient buckets; a device's `max_batch` is what it holds at once.
        jitter: standard deviation of the logarithm of every phase and wire time, each by itself;
            its median is the declared time. A step waits for the latest device, so the mean step
            is longer than declared.
        contention: of single devices, for a while; factors of one device multiply.
        pause_seconds: what a change of the local batches costs, between two steps.

    Raises:
        InputError: there is no model, `jitter` or `pause_seconds` is no number or out of bounds, or
            the contention is none, of no such device, or beyond all times.
    """

    model: StepTimeModel
    jitter: float = 0.0
    contention: tuple[Contention, ...] = ()
    pause_seconds: float = 0.0

    def __post_init__(self) -> None:
        instance("VirtualTruth.model", self.model, StepTimeModel, "staves.steptime.StepTimeModel")
        bounded("VirtualTruth.jitter", self.jitter, _MOST_JITTER, "0.04 is about 4 %")
        bounded("VirtualTruth.pause_seconds", self.pause_seconds, LONGEST_SECONDS, "in seconds")
        wanted = "a tuple of them: (Contention(...),)"
        if not isinstance(self.contention, Iterable):
            raise InputError(
                f"VirtualTruth.contention: {quoted(self.contention)} is no tuple", hint=wanted
            )
        object.__setattr__(self, "contention", tuple(self.contention))
        factors = [1.0] * len(self.model.devices)
        for place, contention in enumerate(self.contention):
            name = f"VirtualTruth.contention[{place}]"
            device = instance(name, contention, Contention, wanted).device
            if not 0 <= device < len(factors):
                raise InputError(
                    f"{name}.device: {device} is none of the {len(factors)} devices",
                    hint="count them from 0",
                )
            factors[device] *= max(1.0, contention.factor)
        try:
            slowed(self.model, factors)
        except InputError as error:
            raise InputError(
                f"VirtualTruth.contention: the slowest time, {error.message}",
                hint="lower the factors: those of one device multiply",
            ) from None

    def at(self, step: int, clock: float) -> StepTimeModel:
        """Return the undisturbed times of that step, which begins at `clock` seconds."""
        factors = [1.0] * len(self.model.devices)
        for contention in self.contention:
            factors[contention.device] *= contention.at(step, clock)
        return slowed(self.model, factors)

    def noise(self, random: np.random.Generator) -> Callable[[], float]:
        """Return a source of factors on single times."""
        return lambda: float(np.exp(self.jitter * random.standard_normal()))


def slowed(model: StepTimeModel, factors: Sequence[float]) -> StepTimeModel:
    """Return the model with each device's times multiplied by its factor, shape (n,)."""
    if all(factor == 1.0 for factor in factors):
        return model
    pairs = zip(model.devices, factors, strict=True)
    return replace(model, devices=tuple(_slowed(device, factor) for device, factor in pairs))


def take_step(
    model: StepTimeModel,
    local_batches: Sequence[int],
    *,
    step: int = 0,
    plan: int = 0,
    micro_steps: int = 1,
    noise: Callable[[], float] = lambda: 1.0,
    delays: Sequence[float] | None = None,
) -> list[StepRecord]:
    """Return what every rank measures of one step, in rank order; all agree on how long it took.

    A bucket is reduced once all ranks have it and the wire is free, as in the step-time model;
    without noise and delays a step takes `accumulated(model, micro_steps)` (see
    `_accumulation.py`), to rounding.

    Args:
        model: the devices' times, of single micro-steps.
        local_batches: samples of each rank, shape (n,).
        step, plan: numbers for the records.
        micro_steps: passes in which each rank takes its samples, in equal parts.
        noise: called for a factor on every single time.
        delays: seconds for which its host keeps each rank from running.
    """
    communication = model.communication
    forward, backward = [], []
    for device, samples, delay in zip(
        model.devices, local_batches, delays or [0.0] * len(local_batches), strict=True
    ):
        before, last = _passes(device, samples, micro_steps, noise)
        forward.append(before + delay)
        backward.append(last)
    free, waits = 0.0, []
    for ready, wire in zip(communication.ready, communication.seconds, strict=True):
        here = [f + ready * b for f, b in zip(forward, backward, strict=True)]
        done = max(free, *here) + wire * noise()
        waits.append([done - max(at, free) for at in here])
        free = done
    return [
        StepRecord(
            step=step,
            plan=plan,
            samples=samples,
            forward=forward[rank],
            backward=backward[rank],
            ready=tuple(share * backward[rank] for share in communication.ready),
            wire=tuple(seen[rank] for seen in waits),
            step_seconds=free,
            micro_steps=micro_steps,
            delay=0.0 if delays is None else delays[rank],
        )
        for rank, samples in enumerate(local_batches)
    ]


def _passes(
    device: Device, samples: int, micro_steps: int, noise: Callable[[], float]
) -> tuple[float, float]:
    """Return the seconds before the last backward pass, and those of that."""
    if samples == 0 and device.idle is not None:
        return device.idle * noise(), 0.0
    at_once = samples / micro_steps
    a, p = device.forward.seconds(at_once), device.backward.seconds(at_once)
    before = sum(a * noise() + p * noise() for _ in range(micro_steps - 1))
    return before + a * noise(), p * noise()


def _slowed(device: Device, factor: float) -> Device:
    return replace(
        device,
        forward=_times(device.forward, factor),
        backward=_times(device.backward, factor),
        idle=None if device.idle is None else factor * device.idle,
    )


def _times(line: Line, factor: float) -> Line:
    return Line(line.fixed * factor, line.per_sample * factor, line.floor * factor)
