"""A split by throughput, measured anew before every decision, and a batch that adapts."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.training.systems.batch_by_line import BatchByLine
from benchmarks.training.systems.shares import evenly, proportionally, speeds
from staves.training import StepRecord


class ProportionalAdaptive(BatchByLine):
    def split(self, steps: Sequence[Sequence[StepRecord]]) -> tuple[int, ...]:
        if not steps:
            return evenly(self.batch, self.devices)
        return proportionally(self.batch, speeds(steps))
