"""Plain DDP: an even split of a fixed batch."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.training.systems.shares import evenly
from staves.training import Decision, Situation, StepRecord, System, VirtualJob


class DDP(System):
    def __init__(self, batch: int) -> None:
        self._batch = batch

    def begin(self, job: VirtualJob) -> None:
        self._decision = Decision(evenly(self._batch, len(job.devices)))

    def decide(self, situation: Situation) -> Decision:
        return self._decision

    def measured(self, records: Sequence[StepRecord]) -> None:
        """Nothing is learned."""
