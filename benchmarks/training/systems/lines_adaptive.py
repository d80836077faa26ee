"""A split by each device's own line of computing times, and a batch that adapts.

What fixed times are it learns, and of the links it knows nothing: it evens out computing. Not one
of the systems that were declared: added when the first comparison with all others had been seen, by
a reader who asked what knowing the fixed times alone is worth.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.training.systems.batch_by_line import BatchByLine
from benchmarks.training.systems.shares import evenly, proportionally, speeds
from staves.steptime import (
    Communication,
    Device,
    Line,
    StepTimeModel,
    fit_line,
    integer_split,
)
from staves.training import StepRecord, VirtualJob

_NO_LINKS = Communication((1.0,), (0.0,))


class LinesAdaptive(BatchByLine):
    def begin(self, job: VirtualJob) -> None:
        self._known: list[tuple[list[float], list[float]]] = [([], []) for _ in job.devices]
        super().begin(job)

    def measured(self, records: Sequence[StepRecord]) -> None:
        super().measured(records)
        for (samples, seconds), record in zip(self._known, records, strict=True):
            samples.append(float(record.samples))
            seconds.append(record.forward + record.backward)

    def split(self, steps: Sequence[Sequence[StepRecord]]) -> tuple[int, ...]:
        if not steps:
            return evenly(self.batch, self.devices)
        if any(len(set(samples)) == 1 for samples, _ in self._known):
            return proportionally(self.batch, speeds(steps))
        lines = [fit_line(samples, seconds) for samples, seconds in self._known]
        devices = [
            Device(f"d{rank}", "any", line, Line(0.0, 0.0)) for rank, line in enumerate(lines)
        ]
        model = StepTimeModel(tuple(devices), _NO_LINKS)
        return integer_split(model, self.batch).local_batches
