"""A split by throughput, measured once on the even split."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.training.systems.shares import evenly, proportionally, speeds
from staves.training import Decision, Situation, StepRecord, System, VirtualJob

MEASURED = 20
"""Steps of the even split: as many as our two probes have together."""


class Proportional(System):
    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._steps: list[Sequence[StepRecord]] = []

    def begin(self, job: VirtualJob) -> None:
        self._decision = Decision(evenly(self._batch, len(job.devices)))

    def decide(self, situation: Situation) -> Decision:
        if len(self._steps) == MEASURED:
            self._decision = Decision(proportionally(self._batch, speeds(self._steps)))
            self._steps.append(())
        return self._decision

    def measured(self, records: Sequence[StepRecord]) -> None:
        if len(self._steps) < MEASURED:
            self._steps.append(records)
