"""Beliefs with a declared error: what policies are told is off, what happens is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from staves.scheduling import Rates
from staves.simulation._work import Placement, Submission, Work

_STREAM = 3  # beside those of `Conditions`, which has the same seed


def erring(submission: Submission, error: float, seed: int, number: int) -> Submission:
    """Return the job with beliefs that are off by a factor for each set of device types.

    The factors are exp(x), x normal with mean 0 and this deviation: half of them are above 1. They
    stay the same through the job's life; equal sets of types of one job share one, whatever the
    counts.

    Args:
        submission: the job, with its truth.
        error: the deviation, about the typical relative error; 0 changes nothing.
        seed: of the run.
        number: of the job in its workload.
    """
    return replace(submission, work=_ErringWork(submission.work, error, seed, number))


class _ErringWork:
    def __init__(self, work: Work, error: float, seed: int, number: int) -> None:
        self._work, self._error = work, error
        self._draw = [seed, _STREAM, number]
        self._factors: dict[tuple[bool, ...], float] = {}

    @property
    def marks(self) -> tuple[float, ...]:
        """The ends of the phases, as they are."""
        return self._work.marks

    def rate(self, phase: int, placement: Placement) -> float:
        """Return the true rate."""
        return self._work.rate(phase, placement)

    def trained(self, phase: int) -> bool:
        """Return what the work says."""
        return self._work.trained(phase)

    def rates(self, phase: int) -> Rates:
        """Return the believed rates times their errors."""
        believed = self._work.rates(phase)

        def off(configurations: NDArray[np.int64]) -> NDArray[np.float64]:
            used = (configurations > 0).tolist()
            return believed(configurations) * [self._factor(tuple(row)) for row in used]

        return off

    def step_work(self, phase: int) -> float:
        """Return what a step is worth: that is counted, not believed."""
        return self._work.step_work(phase)

    def measured(self, phase: int, placement: Placement) -> bool:
        """Return what the work says."""
        return self._work.measured(phase, placement)

    def _factor(self, used: tuple[bool, ...]) -> float:
        if used not in self._factors:
            draw = np.random.default_rng([*self._draw, *map(int, used)])
            self._factors[used] = float(np.exp(draw.normal(0.0, self._error)))
        return self._factors[used]
