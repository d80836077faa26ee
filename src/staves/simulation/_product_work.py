"""Beliefs as this product forms them: step-time lines by type, and the communication last seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from staves.estimation import JobProfile, Point, ProfileRates
from staves.scheduling import Counts, Rates
from staves.simulation._profile_work import ApplicationRates
from staves.simulation._work import Placement
from staves.steptime import Communication, Line

Array = NDArray[np.float64]

_FORWARD_SHARE = 0.35
"""Of computing, where profiles do not tell the passes apart."""


class ProductWork:
    """One job that this product's estimator watches.

    It begins with one-device profiles of each type, as Sia's does: a line of compute time over the
    local batch. Until several devices have run together, each further one is taken to cost a fixed
    share (`estimation.ProfileRates`); from then on the sync that was last seen counts, as on a ring
    of any other size. What the job has run on is believed as it was measured. The batch on what it
    has is that of greatest true goodput, since the trainer measures its own steps.

    Args:
        shared: the application's true rates, for this job's batch.
    """

    def __init__(self, shared: ApplicationRates) -> None:
        self._shared = shared
        application = shared.application
        statistics = application.statistics
        self._batches = statistics.batches if shared.batch is None else np.array([shared.batch])
        points = _one_device_points(shared)
        self._lines = {name: _lines(seen) for name, seen in points.items() if seen}
        self._bounds: dict[str, tuple[int, int | None]] = {
            name: (0, int(max(point.local_batch for point in seen)) if seen else 0)
            for name, seen in points.items()
        }
        self._communication: tuple[Communication, int] | None = None
        self._corrections: dict[Counts, float] = {}
        self._by_batch = self._estimates()
        self._rates: tuple[int, Rates] | None = None

    @property
    def marks(self) -> tuple[float, ...]:
        """The ends of the epochs, reference samples."""
        return self._shared.marks

    def rate(self, phase: int, placement: Placement) -> float:
        """Return the true goodput, and learn from it."""
        epoch = self._shared.epoch(phase)
        rate = epoch.at(placement)
        counts = tuple(sum(nodes) for nodes in placement)
        devices = sum(counts)
        if rate <= 0:
            return 0.0
        sync = epoch.sync_at(placement)
        if devices > 1 and (self._communication is None or self._communication[1] != devices):
            self._communication = Communication((1.0,), (sync,)), devices
            self._by_batch = self._estimates()
        self._corrections.pop(counts, None)
        believed = float(self._believed(phase, np.array([counts], dtype=np.int64))[0])
        if believed > 0:
            self._corrections[counts] = rate / believed
        self._rates = None
        return rate

    def trained(self, phase: int) -> bool:
        """Return False: its trainer has measured its steps when the rate was asked for."""
        return False

    def step_work(self, phase: int) -> float:
        """Return the gain of the fixed batch in reference samples; 0 where the batch adapts."""
        return self._shared.step_work(phase)

    def rates(self, phase: int) -> Rates:
        """Return what is believed of each configuration."""
        if self._rates is None or self._rates[0] != phase:
            self._rates = phase, _Believed(self, phase)
        return self._rates[1]

    def measured(self, phase: int, placement: Placement) -> bool:
        """Say whether the truth there rests on measurements."""
        return self._shared.way(self._shared.number(placement)).measured

    def believed(self, phase: int, configurations: NDArray[np.int64]) -> Array:
        """Return goodputs (C,), in reference samples a second; what was measured as it was."""
        values = self._believed(phase, configurations)
        if self._corrections:
            rows = configurations.tolist()
            values = values * [self._corrections.get(tuple(row), 1.0) for row in rows]
        return values

    def _believed(self, phase: int, configurations: NDArray[np.int64]) -> Array:
        application = self._shared.application
        gain = application.statistics.gain(phase, self._batches)
        worth = gain * application.reference / self._batches / application.calibration
        table = np.array([rates(configurations) for rates in self._by_batch])  # (B, C)
        devices = configurations.sum(axis=1)
        best: Array = (table * worth[:, None]).max(axis=0)
        return np.where(devices <= application.most_devices, best, 0.0)

    def _estimates(self) -> list[ProfileRates]:
        communication, size = self._communication or (None, 1)
        estimates = []
        for batch in self._batches.tolist():
            profile = JobProfile(int(batch), self._lines, communication, size, self._bounds)
            lines = profile.type_lines(self._shared.types, {})
            estimates.append(ProfileRates(int(batch), lines))
        return estimates


class _Believed:
    def __init__(self, work: ProductWork, phase: int) -> None:
        self._work, self._phase = work, phase

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._work.believed(self._phase, configurations)


def _lines(points: tuple[Point, ...]) -> tuple[Line, Line]:
    """Return the lines of least relative error through compute times, neither end below zero."""
    batch = np.array([point.local_batch for point in points])
    compute = np.array([point.compute_seconds for point in points])
    if len(points) == 1:
        fixed, slope = 0.0, float(compute[0] / batch[0])
    else:
        slope, fixed = np.polyfit(batch, compute, 1, w=1 / compute).tolist()
    if fixed < 0:
        fixed, slope = 0.0, float(np.mean(compute / batch))
    elif slope < 0:
        fixed, slope = float(compute.mean()), 0.0
    return (
        Line(fixed * _FORWARD_SHARE, slope * _FORWARD_SHARE),
        Line(fixed * (1 - _FORWARD_SHARE), slope * (1 - _FORWARD_SHARE)),
    )


def _one_device_points(shared: ApplicationRates) -> dict[str, tuple[Point, ...]]:
    """Return for each type what its profile on one device says; nothing where it has none."""
    application = shared.application
    result: dict[str, tuple[Point, ...]] = {}
    for name in shared.types:
        table = application.tables.get(name)
        curve = None if table is None else table.curve((1,))
        result[name] = ()
        if curve is not None:
            result[name] = tuple(
                Point(1, 1, batch, step - sync, step)
                for batch, step, sync in zip(
                    curve.batch.tolist(), curve.step.tolist(), curve.sync.tolist(), strict=True
                )
                if batch <= application.local_limit(name)
            )
    return result
