"""Beliefs as Sia's system forms them: its throughput model, fitted to what a job was seen at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from staves.estimation import Point, ThroughputFit, fit_throughput
from staves.scheduling import Counts
from staves.simulation._profile_work import ApplicationRates
from staves.simulation._ways import Ways
from staves.simulation._work import Placement

Array = NDArray[np.float64]


class SiaWork:
    """One job that Sia's estimator watches (SOSP '23, section 3.2; AdaptDL).

    It begins with one-device profiles of each type at all batches. Every placement and batch that
    the job runs at is one more point for its type, and calls for a new fit. A type on which it has
    only been profiled on one device is believed to scale as one where it has run on several, by the
    ratio of their one-device throughputs, or else perfectly. The batch of greatest believed goodput
    is chosen; progress is true. Gradient statistics are those at the batch that ran last. Unlike
    devices are no option.

    Args:
        shared: the application's true rates, for this job's batch.
    """

    def __init__(self, shared: ApplicationRates) -> None:
        self._shared = shared
        self._points = [list(points) for points in one_device_points(shared)]
        self._last_batch = float(shared.application.reference)
        self._fits = [fit_throughput(points) if points else None for points in self._points]
        self._rates: SiaRates | None = None
        self._rates_of = -1

    @property
    def marks(self) -> tuple[float, ...]:
        """The ends of the epochs, reference samples."""
        return self._shared.marks

    def rate(self, phase: int, placement: Placement) -> float:
        """Return the true goodput at the batch that is believed best, and learn from it."""
        used = [g for g, nodes in enumerate(placement) if nodes]
        way = self._shared.way(self._shared.number(placement))
        if len(used) != 1 or not len(way.batch):
            return 0.0
        (g,) = used
        fit = self._fits[g]
        assert fit is not None
        nodes, devices = len(placement[g]), sum(placement[g])
        best = int((self.gain(phase, way.batch) / predicted(fit, nodes, devices, way)).argmax())
        application = self._shared.application
        steps = float(application.statistics.gain(phase, way.batch[[best]])[0])
        self._last_batch = float(way.batch[best])
        step, sync = float(way.step[best]), float(way.sync[best])
        point = Point(nodes, devices, float(way.local[best]), step - sync, step)
        if point not in self._points[g]:
            self._points[g].append(point)
            self._fits[g] = fit_throughput(self._points[g])
        self._rates = None
        true = steps / float(way.seconds[best]) / application.calibration
        return true * application.reference

    def rates(self, phase: int) -> SiaRates:
        """Return what the fits say of each configuration of one type."""
        if self._rates is None or self._rates_of != phase:
            self._rates = SiaRates(self, self._shared, self._fits, self._tried(), phase)
            self._rates_of = phase
        return self._rates

    def measured(self, phase: int, placement: Placement) -> bool:
        """Say whether the truth there rests on measurements."""
        return self._shared.way(self._shared.number(placement)).measured

    def points(self, type_index: int) -> list[Point]:
        """Return what is known of a type."""
        return list(self._points[type_index])

    def gain(self, phase: int, batch: Array) -> Array:
        """Return the believed gain of batches, by the statistics at the batch that ran last."""
        statistics = self._shared.application.statistics
        at = np.array([self._last_batch])
        square = float(np.interp(at, statistics.batches, statistics.gradient_square[phase])[0])
        noise = float(np.interp(at, statistics.batches, statistics.noise[phase])[0])
        gained: Array = (noise + square) / (noise * (statistics.batches[0] / batch) + square)
        return gained

    def _tried(self) -> list[bool]:
        return [any(p.devices > 1 for p in points) for points in self._points]


class SiaRates:
    """Believed goodputs by configuration, in reference samples a second.

    Args:
        work: whose gain counts.
        shared: the application.
        fits: by type; None where the type does not run the job.
        tried: whether the job has run on several devices of the type.
        phase: the epoch.
    """

    def __init__(
        self,
        work: SiaWork,
        shared: ApplicationRates,
        fits: Sequence[ThroughputFit | None],
        tried: Sequence[bool],
        phase: int,
    ) -> None:
        self._work, self._shared, self._fits = work, shared, tuple(fits)
        self._tried, self._phase = tuple(tried), phase
        self._known: dict[Counts, float] = {}

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return goodputs (C,) of configurations (C, G); 0 for mixed ones."""
        return np.array([self._rate(tuple(row)) for row in configurations.tolist()])

    def _rate(self, counts: Counts) -> float:
        if counts not in self._known:
            self._known[counts] = self._computed(counts)
        return self._known[counts]

    def _computed(self, counts: Counts) -> float:
        used = [g for g, count in enumerate(counts) if count]
        if len(used) != 1 or self._fits[used[0]] is None:
            return 0.0
        (g,), total = used, sum(counts)
        if total == 1 or self._tried[g]:
            return self._by_fit(g, g, total)
        alone = self._by_fit(g, g, 1)
        for other, tried in enumerate(self._tried):
            if tried:
                there = self._by_fit(other, other, 1)
                scaled = self._by_fit(other, g, total)
                return scaled * alone / there if there > 0 else 0.0
        return self._by_fit(g, g, total)

    def _by_fit(self, fitted: int, type_index: int, total: int) -> float:
        """Return the goodput on `total` of a type's devices, by the fit of type `fitted`."""
        fit = self._fits[fitted]
        counts = tuple(total if h == type_index else 0 for h in range(len(self._fits)))
        placement = self._shared.placement(counts)
        way = self._shared.way(self._shared.packed(counts))
        if fit is None or not len(way.batch):
            return 0.0
        seconds = predicted(fit, len(placement[type_index]), total, way)
        application = self._shared.application
        best = float((self._work.gain(self._phase, way.batch) / seconds).max())
        return best / application.calibration * application.reference


def predicted(fit: ThroughputFit, nodes: int, devices: int, way: Ways) -> Array:
    """Return the seconds of a step at every batch of `way`, as the fit has it."""
    return fit.step_seconds(nodes, devices, way.local, way.accumulation)


def one_device_points(shared: ApplicationRates) -> list[tuple[Point, ...]]:
    """Return for each type what its profile on one device says; none where it has no profile."""
    application = shared.application
    result = []
    for name in shared.types:
        table = application.tables.get(name)
        curve = None if table is None else table.curve((1,))
        points: tuple[Point, ...] = ()
        if curve is not None:
            points = tuple(
                Point(1, 1, batch, step - sync, step)
                for batch, step, sync in zip(
                    curve.batch.tolist(), curve.step.tolist(), curve.sync.tolist(), strict=True
                )
                if batch <= application.local_limit(name)
            )
        result.append(points)
    return result
