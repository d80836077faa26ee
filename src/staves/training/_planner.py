"""What the run decides: which local batches, from what was measured. Pure: no torch, no clock.

Cannikin's start-up: an even split first, then one with a forced spread (two distinct local batches
a device give its two lines), then the optimal split of the fitted model. Later fits see more steps
and change the split only where that gains something. Where the total batch adapts, both probes are
short and the second has a larger batch if the noise allows: what they leave open the steps of the
ramp tell, at other batches.

Every rank knows from the step count alone when a decision is due; rank 0 decides and tells the
rest, so ranks can never disagree.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from staves.convergence import efficiency
from staves.errors import InputError
from staves.steptime import (
    Communication,
    Device,
    Line,
    StepTimeModel,
    even_split,
    integer_split,
)
from staves.training._accumulation import accumulated, single
from staves.training._batch_choice import GROWTH, BatchRange, Choice, Verdict, choose_batch
from staves.training._environment import WorkerDevice
from staves.training._fitting import FittedModel, fit_model, jitter, observe
from staves.training._knowledge import Knowledge, known_devices
from staves.training._sampler import apportion
from staves.training._timing import StepRecord

Stage = Literal["even", "spread", "optimal", "fixed"]

_STAGES = {
    "even": "measuring an even split",
    "spread": "measuring a second split",
    "optimal": "optimal split",
    "fixed": "split",
}

WARM_UP = 3
"""Steps left out at the start: connections, buckets and allocators are being set up."""
PROBE = 10
"""Steps measured in each of the two probe phases."""
SHORT_PROBE = 5
"""The same where the total batch adapts."""
WORTH = 0.9
"""What a sample is worth at least in the larger batch of the second probe, beside one in the
reference batch: so little is lost even if larger batches are no faster."""
COMPARE = 8
"""Steps measured with the even split where it is only wanted for comparison."""
SETTLE = 1
"""Steps left out after a change of split."""
WORTHWHILE = 0.005
"""A later fit changes the split only for a predicted gain above this: a change costs next to
nothing, and noise alone hardly ever promises as much."""
RAMP = 5
"""Steps from one change of the total batch to the next decision."""
SELDOM = 100
"""The most steps between two decisions where the total batch adapts."""
_RECENT = 200  # steps of every rank by which predictions are corrected
SPREAD = 0.35
"""Least relative distance of a device's second probe from its first: fits on less are unusable."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How the batch is split from some step on.

    `predicted_seconds` and `even_seconds` are the model's step times of this split and of the even
    one, and `idle_share` how much of the step each device waits, known once there is a model; the
    first lies in `interval` with 95 % confidence. Where the total batch adapts, `noise_scale` is
    the one it was chosen by, in samples, `goodput` what is predicted, in reference samples a
    second, and `verdict` why the batch was taken or kept.
    """

    number: int
    stage: Stage
    local_batches: tuple[int, ...]
    micro_steps: int = 1
    predicted_seconds: float | None = None
    even_seconds: float | None = None
    noise_scale: float | None = None
    goodput: float | None = None
    idle_share: tuple[float, ...] | None = None
    interval: tuple[float, float] | None = None
    verdict: Verdict | None = None

    @property
    def batch(self) -> int:
        """The total batch, in samples."""
        return sum(self.local_batches)

    def describe(self) -> str:
        """Return one line for people."""
        alone = len(self.local_batches) == 1
        moved = self.verdict is not None and self.verdict.chosen != self.verdict.before
        line = f"{self.verdict.describe()}; " if self.verdict is not None and moved else ""
        if not line and (alone or self.noise_scale is not None):
            line = f"batch {self.batch}, "
        if alone:  # no split to speak of, but its batch may change
            line = line[:-2] + (", being measured" if self.stage in ("even", "spread") else "")
        else:
            line += f"{_STAGES[self.stage]} {','.join(str(b) for b in self.local_batches)}"
        if self.micro_steps > 1:
            line += f" in {self.micro_steps} micro-steps"
        if alone and self.predicted_seconds:
            line += f"; predicted step {self.predicted_seconds * 1e3:.1f} ms"
        elif self.predicted_seconds and self.even_seconds:
            line += (
                f"; predicted step {self.predicted_seconds * 1e3:.1f} ms, even split"
                f" {self.even_seconds * 1e3:.1f} ms:"
                f" {self.even_seconds / self.predicted_seconds:.2f} x as fast"
            )
        return line


class Planner:
    """Decide the total batch, if it adapts, and its split over the devices of one generation.

    Args:
        batch: the total batch, in samples.
        devices: one for each rank.
        caps: the most samples a device can hold at once, or None; beyond their sum gradients are
            accumulated over micro-steps.
        fixed: local batches that the user wants; nothing is decided then.
        knowledge: of earlier generations; devices that are all known are not probed again.
        since: the step at which this generation begins.
        compare: begin with a few steps of the even split, also where nothing is left to learn: so
            that what the optimal one gains is measured.
        number: of its first plan; plans of a job have distinct ones.
        allowed: the total batches to choose from; None: `batch` alone.

    Raises:
        InputError: no split can satisfy the bounds.
    """

    def __init__(
        self,
        batch: int,
        devices: Sequence[WorkerDevice],
        caps: Sequence[int | None],
        fixed: Sequence[int] | Literal["even"] | None = None,
        *,
        knowledge: Knowledge | None = None,
        since: int = 0,
        number: int = 0,
        compare: bool = False,
        allowed: BatchRange | None = None,
    ) -> None:
        self.batch = batch
        self.allowed = allowed
        self.devices = tuple(devices)
        self.caps = tuple(caps)
        self.model: StepTimeModel | None = None
        self.knowledge = knowledge or Knowledge()
        self._recent: list[list[StepRecord]] = [[] for _ in self.devices]
        self._probe = SHORT_PROBE if self.adapts else PROBE
        self._due = since + WARM_UP + self._probe
        self._interval = RAMP
        if fixed is not None and fixed != "even":
            check_split(fixed, batch, len(self.devices))
            self.micro_steps = self.micro_steps_of(fixed)
            self.plan = Plan(number, "fixed", tuple(fixed), self.micro_steps)
            return
        self.micro_steps = self._micro_steps_needed()
        decided = fixed == "even" or (len(self.devices) == 1 and not self.adapts)
        if not decided:
            self.model = known_devices(self.knowledge, self.devices, self._single_bounds())
        if self.model is not None and not compare:
            self.plan = self._optimal(number, self.model, jitter=1.0)
            return
        if self.model is not None:
            self._due = since + SETTLE + COMPARE
        even = even_split(self._blank_model(), batch)
        stage: Stage = "fixed" if decided else "even"
        self.plan = Plan(number, stage, even.local_batches, self.micro_steps)

    def due(self, step: int) -> bool:
        """Whether a decision is taken before this step; the same answer on every rank."""
        return self.plan.stage != "fixed" and step >= self._due

    def adopt(
        self,
        plan: Plan,
        step: int,
        model: StepTimeModel | None,
        knowledge: Knowledge | None = None,
    ) -> bool:
        """Take over what rank 0 decided before `step`; return whether the split changes.

        `knowledge` is rank 0's; None on rank 0 itself.
        """
        changed = plan.number != self.plan.number
        if knowledge is not None:
            self.knowledge = knowledge
        # A decision before its time: a device has changed, and is to be fitted at a second batch.
        early = self.plan.stage != "fixed" and step < self._due
        if plan.stage == "spread" or early:
            self._due = step + SETTLE + self._probe
        elif self.adapts:
            grown = plan.batch != self.plan.batch or self.plan.stage == "spread"
            self._interval = RAMP if grown else min(2 * self._interval, SELDOM)
            self._due = step + self._interval
        else:
            self._due = 2 * step  # rarer and rarer: the fits hardly move any more
        self.plan, self.model = plan, model
        self.batch, self.micro_steps = plan.batch, plan.micro_steps
        if model is not None:
            self.knowledge = self.knowledge.learn(model, self.devices)
        return changed

    def wanted(self, split: object, step: int) -> Plan:
        """Return the plan of a step whose split the user gives.

        Raises:
            InputError: it is no split of this batch over these devices.
        """
        if not isinstance(split, Sequence):
            raise InputError(f"split: the function gives {split!r} for step {step}, not a list")
        check_split(split, self.batch, len(self.devices))
        return Plan(self.plan.number, "fixed", tuple(split), self.micro_steps_of(split))

    def may_accumulate(self, split: object) -> bool:
        """Whether a step may have several micro-steps, by the plan or by a user's `split` of each
        step."""
        limited = any(cap is not None for cap in self.caps)
        return self.plan.micro_steps > 1 or (callable(split) and limited)

    def micro_steps_of(self, split: Sequence[int]) -> int:
        """Return the micro-steps that a split needs so that no device holds more than its cap."""
        pairs = zip(split, self.caps, strict=True)
        return max(
            [self._least_micro_steps, *(-(-b // cap) for b, cap in pairs if cap is not None)]
        )

    def decide(
        self,
        records: Sequence[Sequence[StepRecord]],
        noise_scale: float | None = None,
        drifted: Collection[int] = (),
    ) -> tuple[Plan, StepTimeModel | None]:
        """Return the next plan and the model behind it.

        Args:
            records: of every rank, those since the last decision.
            noise_scale: in samples, where the total batch adapts.
            drifted: ranks whose device has changed; their records are all from since.
        """
        number = self.plan.number + 1
        self._take_in(records, drifted)
        if not all(records) and (self.model is None or self.plan.stage != "optimal"):
            # Such as epochs without one full batch: nothing to go by yet.
            if self.plan.stage == "even" and self.model is not None:  # nothing to compare with
                return self._optimal(number, self.model, jitter=1.0), self.model
            return self.plan, self.model
        if self.plan.stage == "even" and self.model is None:
            return self._second_probe(number, records, noise_scale), None
        fitted = self.fit()
        model = fitted.model
        before = self.batch, self.micro_steps
        extra = self._jitter(model)
        verdict = None
        if self.adapts and noise_scale is not None:
            choice = self._choose(model, noise_scale, self.allowed)
            self.batch, self.micro_steps = choice.batch, choice.micro_steps
            verdict = choice.verdict
        best = self._optimal(number, model, jitter=extra, noise_scale=noise_scale)
        best = replace(best, interval=_interval(fitted, best), verdict=verdict)
        whole = accumulated(model, self.micro_steps)
        moved, (self.batch, self.micro_steps) = before != (self.batch, self.micro_steps), before
        if self.plan.stage == "optimal" and not moved:
            kept = whole.step_seconds(self.plan.local_batches)
            if whole.step_seconds(best.local_batches) > (1 - WORTHWHILE) * kept:
                same = replace(
                    self.plan,
                    predicted_seconds=extra * kept,
                    even_seconds=best.even_seconds,
                    verdict=verdict,
                )
                return replace(same, interval=_interval(fitted, same)), model
        return best, model

    @property
    def adapts(self) -> bool:
        """Whether the total batch may change."""
        return self.allowed is not None and self.allowed.adaptive

    def _choose(
        self, model: StepTimeModel, noise_scale: float, allowed: BatchRange | None
    ) -> Choice:
        assert allowed is not None
        return choose_batch(
            model,
            noise_scale,
            allowed,
            current=self.batch,
            micro_steps=self.micro_steps,
            least_micro_steps=self._least_micro_steps,
        )

    def _optimal(
        self,
        number: int,
        model: StepTimeModel,
        *,
        jitter: float,
        noise_scale: float | None = None,
    ) -> Plan:
        whole = accumulated(model, self.micro_steps)
        split = integer_split(whole, self.batch)
        seconds, worth = jitter * split.step_seconds, None
        if self.allowed is not None and noise_scale is not None and seconds > 0:
            reference = self.allowed.reference
            worth = self.batch / seconds * efficiency(noise_scale, self.batch, reference)
        return Plan(
            number,
            "optimal",
            split.local_batches,
            self.micro_steps,
            seconds,
            jitter * even_split(whole, self.batch).step_seconds,
            noise_scale,
            worth,
            tuple(whole.idle_share(split.local_batches).tolist()),
        )

    def fit(self) -> FittedModel:
        """Fit the step-time model of single micro-steps to all that was measured."""
        return fit_model(self.knowledge, self.devices, self._single_bounds())

    def _take_in(self, records: Sequence[Sequence[StepRecord]], drifted: Collection[int]) -> None:
        singles = [[single(record) for record in own] for own in records]
        self.knowledge = observe(self.knowledge, singles, self.devices, drifted)
        for rank, own in enumerate(records):
            before = [] if rank in drifted else self._recent[rank]
            self._recent[rank] = [*before, *own][-_RECENT:]

    def _jitter(self, model: StepTimeModel) -> float:
        """Return the ratio of measured to modelled steps, of those with as many micro-steps."""
        alike = [[r for r in own if r.micro_steps == self.micro_steps] for own in self._recent]
        return jitter(accumulated(model, self.micro_steps), alike)

    def _second_probe(
        self, number: int, records: Sequence[Sequence[StepRecord]], noise_scale: float | None
    ) -> Plan:
        if len(self.devices) > 1:
            split = self._spread(records, self._probed_batch(noise_scale))
            return Plan(number, "spread", split, self.micro_steps)
        # A device alone has nobody to give samples to: its second batch is a larger one.
        assert self.allowed is not None
        batch, cap = min(2 * self.batch, self.allowed.most), self.caps[0]
        needed = 1 if cap is None else -(-batch // cap)
        return Plan(number, "spread", (batch,), max(self._least_micro_steps, needed))

    def _probed_batch(self, noise_scale: float | None) -> int:
        """Return the total batch of the second probe, one that the devices hold as it is."""
        if self.allowed is None or noise_scale is None:
            return self.batch
        worth_it = int((noise_scale + self.allowed.reference) / WORTH - noise_scale)
        bounds = [worth_it, GROWTH * self.batch, self.allowed.most]
        caps = [cap for cap in self.caps if cap is not None]
        if len(caps) == len(self.caps):
            bounds.append(sum(caps) * self.micro_steps)
        return max(self.batch, min(bounds))

    def _spread(self, records: Sequence[Sequence[StepRecord]], batch: int) -> tuple[int, ...]:
        """Return the second probe's split: by speed, and forced away from the first one."""
        first = np.array(self.plan.local_batches, dtype=float)
        seconds = np.array(
            [np.median([r.forward + r.backward for r in own]) for own in records], dtype=float
        )
        target = np.maximum(first, 1.0) / np.maximum(seconds, 1e-9)
        target *= batch / target.sum()
        near = np.flatnonzero(np.abs(target - first) < SPREAD * first)
        # Devices too near their first probe go up and down in turn, the fastest up.
        for turn, rank in enumerate(near[np.argsort(seconds[near], kind="stable")]):
            target[rank] = first[rank] * (1 + SPREAD if turn % 2 == 0 else 1 - SPREAD)
        weights = np.maximum(1, np.round(1000 * target / target.sum())).astype(int)
        split = apportion([int(w) for w in weights], batch)
        return _within(split, *self._bounds(batch))

    @property
    def _least_micro_steps(self) -> int:
        """A device alone has two at least where its noise scale is wanted: that needs two groups.

        (Differences of successive gradients would do with one, but are biased.)
        """
        return 2 if self.allowed is not None and len(self.devices) == 1 and self.batch > 1 else 1

    def _single_bounds(self) -> list[tuple[int, int | None]]:
        return [(self._minimum(rank), self.caps[rank]) for rank in range(len(self.devices))]

    def _bounds(self, batch: int) -> tuple[list[int], list[int]]:
        ranks = range(len(self.devices))
        return (
            [self._minimum(r) for r in ranks],
            [batch if (m := self._maximum(r)) is None else m for r in ranks],
        )

    def _minimum(self, rank: int) -> int:
        profile = self.devices[rank].profile
        return 0 if profile is None else profile.min_batch

    def _maximum(self, rank: int) -> int | None:
        cap = self.caps[rank]
        return None if cap is None else cap * self.micro_steps

    def _micro_steps_needed(self) -> int:
        if any(cap is None for cap in self.caps):
            return self._least_micro_steps
        room = sum(cap for cap in self.caps if cap is not None)
        return max(self._least_micro_steps, -(-self.batch // room))

    def _blank_model(self) -> StepTimeModel:
        devices = tuple(
            Device(
                name=str(rank),
                type=device.type,
                forward=Line(0.0, 1.0),
                backward=Line(0.0, 1.0),
                min_batch=self._minimum(rank),
                max_batch=self._maximum(rank),
            )
            for rank, device in enumerate(self.devices)
        )
        return StepTimeModel(devices, Communication((1.0,), (0.0,)))


def _interval(fitted: FittedModel, plan: Plan) -> tuple[float, float] | None:
    """Return the bounds of the predicted step: as far apart as those of one of its micro-steps."""
    batches = [b / plan.micro_steps for b in plan.local_batches]
    seconds = fitted.model.step_seconds(batches)
    if plan.predicted_seconds is None or seconds <= 0:
        return None
    low, high = fitted.interval(batches)
    return plan.predicted_seconds * low / seconds, plan.predicted_seconds * high / seconds


def check_split(split: Sequence[int], batch: int, world_size: int) -> None:
    """Refuse local batches that do not fit the world or do not sum to the total batch."""
    if len(split) != world_size:
        raise InputError(
            f"split: {len(split)} local batches for {world_size} devices",
            hint="give one for each device, in rank order",
        )
    if any(isinstance(b, bool) or not isinstance(b, int) or b < 0 for b in split):
        raise InputError(f"split: {list(split)} holds something else than sample counts")
    if sum(split) != batch:
        raise InputError(f"split: {list(split)} sums to {sum(split)}, the batch is {batch}")


def _within(split: Sequence[int], low: Sequence[int], high: Sequence[int]) -> tuple[int, ...]:
    """Return the split moved inside its bounds, its sum kept."""
    bounded = [min(max(b, lo), hi) for b, lo, hi in zip(split, low, high, strict=True)]
    missing = sum(split) - sum(bounded)
    for rank in range(len(bounded)):
        room = high[rank] - bounded[rank] if missing > 0 else low[rank] - bounded[rank]
        moved = min(missing, room) if missing > 0 else max(missing, room)
        bounded[rank] += moved
        missing -= moved
    return tuple(bounded)
