"""Our learner under a total batch that somebody else decides."""

from __future__ import annotations

from collections.abc import Callable

from staves.steptime import integer_split
from staves.training import Decision, Learner, Situation


class Prescribed(Learner):
    """The learner's own model splits whatever batch is prescribed.

    Before a prescribed change its ranks fit anew to all that they have measured, as they do before
    a change of their own. While there is no model it goes on with its own batch, the job's first.

    Args:
        batch: of the next step, by the situation and the batch that the learner would take.
    """

    def __init__(self, batch: Callable[[Situation, int], int]) -> None:
        super().__init__()
        self._batch = batch
        self._before: int | None = None

    def decide(self, situation: Situation) -> Decision:
        own = super().decide(situation)
        batch = self._batch(situation, own.batch)
        if self.planners[0].model is None:
            return own
        if batch not in (own.batch, self._before) and self.decisions[-1] != situation.step:
            self._fit(situation)
        self._before = batch
        if batch == self.plan.batch:
            return Decision(self.plan.local_batches, self.plan.micro_steps)
        model = self.planners[0].model
        return Decision(integer_split(model, batch).local_batches)

    def _fit(self, situation: Situation) -> None:
        step = situation.step
        self.decisions.append(step)
        for measuring, planner in zip(self.measuring, self.planners, strict=True):
            measuring.decide(planner, self._exchange, step, situation.noise_scale)
        self.plans.append((step, self.plan))
