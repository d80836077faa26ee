"""Whether a device has become slower or faster than its lines say. Pure: no torch, no clock.

A two-sided CUSUM (Page, "Continuous inspection schemes", Biometrika 1954) on the logarithm of
measured over fitted time. Each rank watches its own device only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from staves.steptime import Cell, typical
from staves.training._timing import StepRecord

ALLOWANCE = 1.0
"""A deviation below this many standard deviations lowers the sum."""
THRESHOLD = 8.0
"""The sum at which a device counts as changed. With ALLOWANCE, normal noise comes to it less than
once in 10^5 steps; a device at half its speed in four."""
LARGEST = 3.0
"""One step counts for no more than this many standard deviations: one stall is no change."""
MISFIT = 0.05
"""How far lines may be off where they were fitted, relative: part of the deviation."""

_BASELINE = 8  # steps at a batch not measured before that say how far off the line is there
_TRUSTED = 0.15  # how far off a line may be between batches that were measured
_NEAR = 1.25  # beyond this ratio to a measured batch a line is extrapolated
_LEAST, _MOST = 0.02, 0.3  # bounds of the relative noise
_NOISE_WEIGHT = 8.0  # measurements that the noise known so far counts as: few tell it badly


class Drift:
    """Watch the steps of one device against what was fitted.

    Attributes:
        since: the step at which it began to be otherwise; None while it is as fitted.
    """

    def __init__(self) -> None:
        self.since: int | None = None
        self._noise = MISFIT
        self._measured: tuple[float, ...] = ()
        self._batch: float | None = None
        self._baseline: list[float] = []
        self._offset = 0.0
        self._sums = {1: 0.0, -1: 0.0}
        self._began: dict[int, int] = {}

    def fitted(self, forward: Sequence[Cell], backward: Sequence[Cell]) -> None:
        """The device has been fitted anew: what is usual begins here.

        Args:
            forward, backward: the measurements behind the fit; none where nothing was measured
                since the device changed.
        """
        counted, variance = _NOISE_WEIGHT, _NOISE_WEIGHT * self._noise**2
        for a, p in zip(forward, backward, strict=True):
            if (seconds := a.seconds + p.seconds) > 0:
                counted += a.weight
                variance += a.weight * (a.variance + p.variance) / seconds**2
        self._noise = min(max(math.sqrt(variance / counted), _LEAST), _MOST)
        self._measured = tuple(cell.batch for cell in forward)
        self._restart()
        self._batch = None

    def observe(self, record: StepRecord, expected: float) -> None:
        """Take in a step for which `expected` seconds of computing were fitted."""
        if self.since is not None or expected <= 0 or record.compute <= 0:
            return
        residual = math.log(record.compute / expected)
        if record.samples != self._batch:
            self._batch, self._baseline = record.samples, []
            self._restart()
        if record.samples not in self._measured and len(self._baseline) < _BASELINE:
            self._baseline.append(residual)
            offset = typical(np.asarray(self._baseline))
            bound = _TRUSTED if self._is_near(record.samples) else math.inf
            self._offset = min(max(offset, -bound), bound)
            if abs(self._offset) < bound:
                return
        deviation = math.hypot(self._noise, MISFIT)
        score = min(max((residual - self._offset) / deviation, -LARGEST), LARGEST)
        for sign, total in self._sums.items():
            if total == 0.0:
                self._began[sign] = record.step
            self._sums[sign] = max(0.0, total + sign * score - ALLOWANCE)
            if self._sums[sign] >= THRESHOLD:
                self.since = self._began[sign]
                return

    def _restart(self) -> None:
        self.since = None
        self._offset = 0.0
        self._sums = {1: 0.0, -1: 0.0}

    def _is_near(self, samples: float) -> bool:
        return any(b / _NEAR <= samples <= b * _NEAR for b in self._measured if b > 0)
