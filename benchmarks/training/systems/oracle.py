"""What knows the truth: the best split always, and the batch of greatest goodput at once.

It acts on the same estimated noise scale as the others: where that errs, so does the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence

from staves.convergence import best_batch
from staves.steptime import integer_split
from staves.training import Decision, Situation, StepRecord, System, VirtualJob, VirtualTruth

MOVED = 0.02
"""A noise scale that has moved by less asks for no other batch."""


class Oracle(System):
    def __init__(self, truth: VirtualTruth, batch: int | None = None) -> None:
        self._truth, self._batch = truth, batch
        self._acted_on = -1.0

    def begin(self, job: VirtualJob) -> None:
        self._job = job
        self._model = self._truth.at(0, 0.0)
        self._decision = self._split(self._batch or job.batch)

    def decide(self, situation: Situation) -> Decision:
        model = self._truth.at(situation.step, situation.clock)
        moved = model != self._model
        self._model = model
        noise_scale, allowed = situation.noise_scale, self._job.allowed
        if self._batch is not None or noise_scale is None or allowed is None:
            if moved:
                self._decision = self._split(self._decision.batch)
        elif moved or abs(noise_scale - self._acted_on) > MOVED * self._acted_on:
            self._acted_on = noise_scale
            best = best_batch(model, noise_scale, allowed.reference, allowed.most)
            self._decision = Decision(best.split.local_batches)
        return self._decision

    def measured(self, records: Sequence[StepRecord]) -> None:
        """It knows."""

    def _split(self, batch: int) -> Decision:
        return Decision(integer_split(self._model, batch).local_batches)
