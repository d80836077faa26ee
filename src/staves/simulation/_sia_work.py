"""Adaptive jobs as Sia and Pollux run them: the batch is chosen by what has been learned so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from staves.estimation import (
    BatchLimits,
    GradientStatistics,
    Point,
    SiaRates,
    ThroughputFit,
    choose_batch,
    fit_throughput,
)
from staves.simulation._application import Application
from staves.simulation._curves import Curve
from staves.simulation._work import Placement

_ROUNDING = 1e-8


@dataclass(frozen=True, slots=True)
class _Running:
    """How the job runs now."""

    kind: int
    point: Point
    batch: float
    seconds: float


class SiaWork:
    """One job whose beliefs are Sia's: a fit of each type that it has trained on.

    Its goodput is the truth of its profile at a batch that it chooses by its fit of the type, its
    last gradient statistics, and the limits of where it stands; the smallest batch, or the least
    that its devices can hold, until it has both. The policy's beliefs search batches up to
    `batch` only, as the released code does, and by the limits of the type.

    Args:
        application: the profile.
        types: names of the cluster's types.
        node_sizes: devices of each type on a node.
        batch: total batch that the owner asked for.
        adaptive: whether the batch is chosen between the application's smallest and largest; else
            it is `batch`.
    """

    def __init__(
        self,
        application: Application,
        types: Sequence[str],
        node_sizes: Sequence[int],
        batch: int,
        *,
        adaptive: bool = True,
    ) -> None:
        self._application, self._types = application, tuple(types)
        self._node_sizes = tuple(node_sizes)
        ends = application.statistics.epoch_ends * application.reference
        self._marks = tuple(ends.tolist())
        self._smallest = application.reference if adaptive else batch
        self._largest = float(application.largest_batch if adaptive else batch)
        self._fixed_batch = 0 if adaptive else batch
        self._limits: dict[int, BatchLimits] = {}
        self._alone = [math.nan] * len(self._types)
        for g, name in enumerate(self._types):
            table = application.tables.get(name)
            alone = None if table is None else table.curve((1,))
            if table is None or alone is None:
                continue
            curves = (table.placements or table.shapes).values()
            least = min(float(curve.batch[0]) for curve in curves)
            most = min(max(curve.largest for curve in curves), application.local_limit(name))
            self._limits[g] = BatchLimits(application.reference, self._smallest, batch, least, most)
            self._alone[g] = alone.largest / float(alone.step.max())
        self._points: dict[int, dict[tuple[int, int, float], Point]] = {}
        self._gradients: GradientStatistics | None = None
        self._running: _Running | None = None
        self._beliefs: SiaRates | None = None

    @property
    def marks(self) -> tuple[float, ...]:
        """The ends of the epochs, reference samples."""
        return self._marks

    def rate(self, phase: int, placement: Placement) -> float:
        """Choose the batch anew and return the true goodput with it; 0 where it cannot run."""
        used = [g for g, nodes in enumerate(placement) if nodes]
        curve = None
        if len(used) == 1 and used[0] in self._limits:
            curve = self._application.tables[self._types[used[0]]].curve(placement[used[0]])
        if curve is None:
            self._running = None
            return 0.0
        g = used[0]
        nodes, devices = len(placement[g]), sum(placement[g])
        local, extra = self._batch(g, nodes, devices, curve)
        step, sync = (float(value[0]) for value in curve.at(np.array([local])))
        seconds = step + extra * (step - sync)
        batch = devices * local * (extra + 1)
        self._running = _Running(g, Point(nodes, devices, local, step - sync, step), batch, seconds)
        gain = float(self._application.statistics.gain(phase, np.array(batch)))
        return gain / seconds / self._application.calibration * self._application.reference

    def trained(self, phase: int) -> bool:
        """Learn from having trained where it stands; say whether there was something to learn."""
        running = self._running
        if running is None:
            return False
        gradients = self._application.statistics.at(phase, running.batch)
        point = running.point
        points = self._points.setdefault(running.kind, {})
        key = (point.nodes, point.devices, point.local_batch)
        if key in points and gradients == self._gradients:
            return False
        points.setdefault(key, point)
        self._gradients = gradients
        self._beliefs = None
        return True

    def rates(self, phase: int) -> SiaRates:
        """Return what Sia believes, whatever the epoch."""
        if self._beliefs is None:
            fits = {g: self._fit(g) for g in self._points}
            self._beliefs = SiaRates(
                fits, self._gradients, self._limits, self._node_sizes, self._alone
            )
        return self._beliefs

    def step_work(self, phase: int) -> float:
        """Return the gain of the fixed batch in reference samples; 0 where the batch adapts."""
        if not self._fixed_batch:
            return 0.0
        gain = self._application.statistics.gain(phase, np.array(float(self._fixed_batch)))
        return float(gain) * self._application.reference

    def measured(self, phase: int, placement: Placement) -> bool:
        """Say whether all of it was measured, or lies between what was."""
        curves = [
            self._application.tables[self._types[g]].curve(nodes)
            for g, nodes in enumerate(placement)
            if nodes and g in self._limits
        ]
        return all(curve is not None and curve.measured for curve in curves)

    def _fit(self, g: int) -> ThroughputFit:
        return fit_throughput(self._points[g].values())

    def _batch(self, g: int, nodes: int, devices: int, curve: Curve) -> tuple[float, float]:
        """Return the local batch and the passes before the last of a step."""
        reference, largest = self._application.reference, self._largest
        least = self._limits[g].local_least
        here = BatchLimits(reference, self._smallest, largest, least, curve.largest)
        if self._gradients is not None and g in self._points:
            choice = choose_batch(
                self._fit(g), self._gradients, here, np.array([nodes]), np.array([devices])
            )
            local, extra = float(choice.local[0]), float(choice.accumulation[0])
        else:
            batch = max(self._smallest, least * devices)
            share = math.ceil(batch / devices - _ROUNDING)
            extra = math.ceil(share / here.local_most - _ROUNDING) - 1
            extra = max(extra, 1) if devices == 1 and batch > reference else extra
            local = math.ceil(share / (extra + 1) - _ROUNDING)
        return min(local, curve.largest, largest // (devices * (extra + 1))), extra
