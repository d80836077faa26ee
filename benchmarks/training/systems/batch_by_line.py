"""A total batch by goodput, for systems that see only how long whole steps take.

In the manner of AdaptDL (Pollux, OSDI '21): a line of step times by total batch, 50 candidates on a
geometric grid, another batch where it gains over 5 %. The ramp and the rhythm are ours, so that
what differs is the split and what is known of the devices.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from staves.convergence import efficiency
from staves.steptime import fit_line
from staves.training import Decision, Situation, StepRecord, System, VirtualJob

CANDIDATES = 50
WORTHWHILE = 1.05
GROWTH = 4
FIRST, RAMP, SELDOM = 8, 5, 100
"""Steps before the first decision, between one that changes the batch and the next, and at most."""


class BatchByLine(System):
    def begin(self, job: VirtualJob) -> None:
        assert job.allowed is not None
        self.devices, self._allowed = len(job.devices), job.allowed
        self.batch = job.batch
        self._split = self.split(())
        self._due, self._interval = FIRST, RAMP
        self._since: list[Sequence[StepRecord]] = []
        self._batches: list[float] = []
        self._seconds: list[float] = []

    @abstractmethod
    def split(self, steps: Sequence[Sequence[StepRecord]]) -> tuple[int, ...]:
        """Return how `self.batch` is split, from the steps of the split so far; none: evenly."""

    def decide(self, situation: Situation) -> Decision:
        if situation.step >= self._due and self._since:
            before = self.batch
            self.batch = self._best(situation.noise_scale)
            changed = self.batch != before
            self._interval = RAMP if changed else min(2 * self._interval, SELDOM)
            self._due = situation.step + self._interval
            self._split = self.split(self._since)
            self._since.clear()
        return Decision(self._split)

    def measured(self, records: Sequence[StepRecord]) -> None:
        self._since.append(records)
        self._batches.append(float(self.batch))
        self._seconds.append(records[0].step_seconds)

    def _best(self, noise_scale: float | None) -> int:
        most = min(self._allowed.most, GROWTH * self.batch)
        if len(set(self._batches)) == 1:  # a second batch is needed for a line
            return min(2 * self.batch, most)
        if noise_scale is None:
            return self.batch
        line = fit_line(self._batches, self._seconds)

        def goodput(batch: int) -> float:
            worth = efficiency(noise_scale, batch, self._allowed.reference)
            return batch / line.seconds(batch) * worth

        candidates = np.geomspace(self._allowed.least, most, CANDIDATES).round().astype(int)
        best = max((int(batch) for batch in candidates), key=goodput)
        return best if goodput(best) > WORTHWHILE * goodput(self.batch) else self.batch
