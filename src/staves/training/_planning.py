"""The plan of a run: made as a generation forms, and decided anew from what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from staves.errors import TrainingError
from staves.training._environment import Environment, WorkerDevice
from staves.training._exchange import Exchange
from staves.training._measuring import CADENCE, Measuring
from staves.training._planner import Plan, Planner
from staves.training._progress import Progress
from staves.training._splits import Split, fixed_split
from staves.training._timing import StepTimer


class Planning:
    """One rank's side of it: all ranks call the same methods at the same steps.

    Args:
        batch: the total batch to begin with; `Progress` may know a later one.
        split: as the script gives it.
        declared: the device's speed is declared (see `Measuring`).
    """

    def __init__(
        self,
        environment: Environment,
        progress: Progress,
        timer: StepTimer,
        *,
        batch: int,
        split: Split,
        declared: bool,
    ) -> None:
        self.batch, self.split = batch, split
        self.planner: Planner | None = None
        self._measuring = Measuring(declared=declared)
        self._environment, self._progress, self._timer = environment, progress, timer

    @property
    def plan(self) -> Plan:
        """The plan in use.

        Raises:
            TrainingError: before `run.epochs`.
        """
        if self.planner is None:
            raise TrainingError(
                "there is no plan before run.epochs", hint="read run.plan inside the loop"
            )
        return self.planner.plan

    def plan_for(self, step: int) -> Plan:
        """Return the plan of that step, as far as it is decided."""
        plan = self.plan
        if not callable(self.split):
            return plan
        assert self.planner is not None
        return self.planner.wanted(self.split(step), step)

    @property
    def may_accumulate(self) -> bool:
        """Whether a plan of this generation may have several micro-batches a step."""
        return self.planner is not None and self.planner.may_accumulate(self.split)

    def make(
        self,
        devices: Sequence[WorkerDevice],
        caps: Sequence[int | None],
        exchange: Exchange | None,
        *,
        rank: int,
    ) -> None:
        """Plan for these devices, by rank; each holds at most its cap's samples at once."""
        progress, step = self._progress, self._progress.figures.steps
        self.batch = progress.batch or self.batch
        first = progress.figures.generations == 0
        self.planner = Planner(
            self.batch,
            devices,
            caps,
            fixed_split(self.split, len(devices), first=first),
            knowledge=progress.knowledge,
            since=step,
            number=progress.next_plan,
            compare=self._environment.measure_even,
            allowed=progress.allowed_batches(),
        )
        progress.next_plan += 1
        self._measuring.begin_generation(self.planner, rank, exchange, step)

    def take_in(self) -> None:
        """Take in what was measured since the last time."""
        if self.planner is not None:
            records, figures = self._timer.records(), self._progress.figures
            self._measuring.take_in(records, self.planner.plan, figures)

    def due(self, step: int) -> bool:
        """Whether a decision is taken before this step: alike on all ranks.

        Raises:
            Interrupted: the generation has broken.
        """
        assert self.planner is not None
        if step % CADENCE == 0 or self.planner.due(step):
            self.take_in()
        return self._measuring.decision_due(self.planner, step)

    def decide(self, exchange: Exchange | None) -> bool:
        """Gather what was measured, decide on rank 0, and adopt it; return whether the plan is new.

        Raises:
            Interrupted: the generation broke meanwhile; nothing is adopted.
        """
        planner, progress = self.planner, self._progress
        assert planner is not None
        step = progress.figures.steps
        changed = self._measuring.decide(planner, exchange, step, progress.acted_on)
        self.batch = planner.batch
        progress.decided(planner)
        return changed
