"""One rank's measured steps: which count, when its device has changed, what rank 0 is sent.

A device that has changed asks for a decision before its time. It raises a flag in the store; rank 0
looks at a fixed cadence of steps, and sets a flag for the cadence after; all ranks look there. A
step needs every rank's gradients, so that flag was up before any rank came to that boundary: all
see it or none. No rank ever waits for another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from staves.steptime import StepTimeModel
from staves.training._accumulation import single
from staves.training._contention import Sieve, run_delay
from staves.training._drift import Drift
from staves.training._exchange import Exchange
from staves.training._figures import Figures
from staves.training._knowledge import Knowledge
from staves.training._pacing import Pacer
from staves.training._planner import SETTLE, WARM_UP, Plan, Planner
from staves.training._timing import CudaClock, HostClock, StepRecord, StepTimer

CADENCE = 4
"""Steps between two looks for flags: a round trip to the store each."""
PATIENCE = 3
"""Decisions that an emulated device puts off while it is probed and mostly late: one that is never
in time is taken as it is."""
KEPT = 400
"""Measured steps that a rank keeps for the next decision."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a rank sends for a decision: steps not sent before, and whether its device changed.

    `drifted`: the records are all from since it changed. `held_up`: over half of the steps since
    the last decision were left out, so that those sent are a choice of the luckiest.
    """

    records: tuple[StepRecord, ...]
    drifted: bool
    held_up: bool


class Measuring:
    """Take in a rank's steps, and say what they tell.

    Args:
        declared: the device's speed is declared (see `Sieve`).
    """

    def __init__(self, *, declared: bool = False) -> None:
        self._sieve = Sieve(declared=declared)
        self._steps = self._dropped_before = self._put_off = 0
        self._drift = Drift()
        self._records: list[StepRecord] = []
        self._since = self._decisions = 0
        self._asked = False
        self._rank, self._name = 0, ""
        self._exchange: Exchange | None = None
        self._model: StepTimeModel | None = None

    @property
    def dropped(self) -> int:
        """Steps left out of the fits because the host held them up."""
        return self._sieve.dropped

    @property
    def drifted_since(self) -> int | None:
        """The step at which this device became slower or faster than fitted; None: it did not."""
        return self._drift.since

    def begin_generation(
        self, planner: Planner, rank: int, exchange: Exchange | None, step: int
    ) -> None:
        """A generation begins with `step`: nothing measured before is of its plan."""
        self._rank, self._name = rank, planner.devices[rank].name
        if exchange is not self._exchange:  # else flags of decisions before are still up
            self._exchange, self._decisions = exchange, 0
        self._records.clear()
        self._adopted(planner, step, changed=True)

    def settled(self, step: int) -> bool:
        """Whether the step is measured: not right after a change of split."""
        return step >= self._since + (WARM_UP if self._since == 0 else SETTLE)

    def take_in(self, records: Iterable[StepRecord], plan: Plan, figures: Figures) -> None:
        """Take in and count a rank's steps.

        Called every few steps, with several at once: whatever is done between two steps finds its
        caches cold.
        """
        for record in records:
            if record.plan == plan.number:
                settled = self.settled(record.step)
                figures.measured(record, plan, settled=settled)
                if settled:
                    self.take(record)

    def take(self, record: StepRecord) -> None:
        """Take in a settled step of the plan in use."""
        self._steps += 1
        if not self._sieve.admits(record):
            return
        self._records.append(record)
        del self._records[:-KEPT]
        if self._model is None:
            return
        device, passed = self._model.devices[self._rank], single(record)
        lines = device.forward, device.backward
        expected = sum(line.seconds(passed.samples) for line in lines)
        self._drift.observe(passed, expected)

    def decision_due(self, planner: Planner, step: int) -> bool:
        """Whether a decision is taken before this step, by the planner's count or because a device
        has changed: alike on all ranks.

        Raises:
            Interrupted: the generation has broken.
        """
        if planner.due(step):
            return True
        exchange = self._exchange
        if exchange is None or planner.plan.stage == "fixed" or self._model is None:
            return False
        ask = f"changed/{self._decisions}"
        if self._drift.since is not None and not self._asked:
            exchange.raise_flag(ask)
            self._asked = True
        if step % CADENCE:
            return False
        if exchange.flagged(f"decide/{step}"):
            return True
        if self._rank == 0 and exchange.flagged(ask):
            exchange.raise_flag(f"decide/{step + CADENCE}")
        return False

    def decide(
        self, planner: Planner, exchange: Exchange | None, step: int, noise_scale: float | None
    ) -> bool:
        """Gather what was measured, decide on rank 0, and adopt it; return whether the plan is new.

        Args:
            planner: this rank's.
            exchange: between the ranks; None for a process that is alone.
            step: the one that the decision comes before.
            noise_scale: in samples, where the total batch adapts.

        Raises:
            Interrupted: the generation broke meanwhile; nothing is adopted.
        """

        def decide(gathered: list[Measured]) -> tuple[Plan, StepTimeModel | None, Knowledge]:
            drifted = {rank for rank, measured in enumerate(gathered) if measured.drifted}
            records = [measured.records for measured in gathered]
            if any(measured.held_up for measured in gathered):
                # Nothing is learned: the split stays, the batch by the model as it was.
                drifted, records = set(), [()] * len(gathered)
            plan, model = planner.decide(records, noise_scale, drifted)
            return plan, model, planner.knowledge

        own = self.measured()
        decision = decide([own]) if exchange is None else exchange.agree(own, decide)
        plan, model, knowledge = decision
        if own.held_up and planner.model is None:
            self._put_off += 1
            if self._put_off >= PATIENCE:
                self._sieve.declared = False
        changed = planner.adopt(plan, step, model, knowledge)
        self._adopted(planner, step, changed=changed)
        return changed

    def measured(self) -> Measured:
        """Return what this rank sends for a decision; it goes on being kept."""
        since = self._drift.since
        records = [r for r in self._records if since is None or r.step >= since]
        held_up = 2 * (self._sieve.dropped - self._dropped_before) > self._steps
        return Measured(tuple(records), since is not None, held_up)

    def _adopted(self, planner: Planner, step: int, *, changed: bool) -> None:
        phases = planner.knowledge.cells.get(self._name, {})
        self._drift.fitted(phases.get("forward", ()), phases.get("backward", ()))
        self._model, self._asked = planner.model, False
        self._decisions += 1
        self._steps, self._dropped_before = 0, self._sieve.dropped
        self._records.clear()
        if changed:
            self._since = step


def step_timer(device: torch.device, pacer: Pacer | None) -> StepTimer:
    """Return the timer of a rank's steps.

    What holds them up: on a CPU, waiting for a core; on an emulated device, real work that comes
    too late to be paced, since anything shorter hides in the declared time. A GPU's events run by
    its own clock.
    """
    if device.type == "cuda":
        return StepTimer(CudaClock())
    if pacer is not None:
        return StepTimer(HostClock(), lambda: pacer.late_seconds)
    return StepTimer(HostClock(), run_delay())
