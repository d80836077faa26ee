"""In the manner of LB-BSP (Chen et al., SoCC '20): a controller that evens out computing times.

Every few steps some samples move from the device that computes longest to the one that is done
first; fewer where they would move back. It has no model of communication.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.training.systems.shares import evenly
from staves.training import Decision, Situation, StepRecord, System, VirtualJob

WINDOW = 5
"""Steps between two moves."""
FIRST_MOVE = 0.05
"""Of the batch, in the first move."""


class LBBSP(System):
    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._steps: list[Sequence[StepRecord]] = []
        self._move = max(1, round(FIRST_MOVE * batch))
        self._last = (-1, -1)

    def begin(self, job: VirtualJob) -> None:
        self._split = list(evenly(self._batch, len(job.devices)))

    def decide(self, situation: Situation) -> Decision:
        if len(self._steps) == WINDOW:
            self._balance()
            self._steps.clear()
        return Decision(tuple(self._split))

    def measured(self, records: Sequence[StepRecord]) -> None:
        self._steps.append(records)

    def _balance(self) -> None:
        times = np.array([[r.forward + r.backward for r in step] for step in self._steps]).mean(0)
        slowest, fastest = int(np.argmax(times)), int(np.argmin(times))
        if (fastest, slowest) == self._last:
            self._move = max(1, self._move // 2)
        moved = min(self._move, self._split[slowest])
        # Without a gain in sight nothing moves: who gets samples would, by its own time a sample,
        # compute as long as who gives them does now.
        per_sample = times / np.maximum(1, self._split)
        if times[fastest] + moved * per_sample[fastest] >= times[slowest]:
            self._move = max(1, self._move // 2)
            return
        self._split[slowest] -= moved
        self._split[fastest] += moved
        self._last = (slowest, fastest)
