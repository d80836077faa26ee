"""An even split, and a batch that adapts."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.training.systems.batch_by_line import BatchByLine
from benchmarks.training.systems.shares import evenly
from staves.training import StepRecord


class AdaptDLLike(BatchByLine):
    def split(self, steps: Sequence[Sequence[StepRecord]]) -> tuple[int, ...]:
        return evenly(self.batch, self.devices)
