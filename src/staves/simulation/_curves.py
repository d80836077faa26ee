"""Measured step times of one application on one device type, by placement and local batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Shape = tuple[int, int]
"""Nodes and devices."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Step and sync time by local batch, for one placement.

    Args:
        batch: local batches in ascending order, (N,).
        step: seconds of a step, sync included, (N,).
        sync: seconds of it that gradients take, (N,).
        measured: whether all points were measured for this very shape or between two that were.
    """

    batch: Array
    step: Array
    sync: Array
    measured: bool = True

    @property
    def largest(self) -> float:
        """The largest local batch: memory ends there, or measurements do."""
        return float(self.batch[-1])

    def at(self, batch: Array) -> tuple[Array, Array]:
        """Return step and sync seconds of local batches, linear between the measured ones.

        Below the smallest they stay what they are there; above the largest they are inf.
        """
        step = np.interp(batch, self.batch, self.step, right=np.inf)
        return step, np.interp(batch, self.batch, self.sync)


@dataclass(frozen=True, eq=False)
class StepTable:
    """All curves of one application on one type.

    Args:
        placements: by devices on each node, most first.
        shapes: by nodes and devices, where the nodes have about as many each.
    """

    placements: Mapping[tuple[int, ...], Curve]
    shapes: Mapping[Shape, Curve]
    _known: dict[tuple[int, ...], Curve | None] = field(default_factory=dict, repr=False)

    @property
    def most_nodes(self) -> int:
        """The most nodes that were measured together."""
        return max(nodes for nodes, _ in self.shapes)

    @property
    def most_devices(self) -> int:
        """The most devices that were measured together."""
        return max(devices for _, devices in self.shapes)

    def curve(self, placement: tuple[int, ...]) -> Curve | None:
        """Return the curve of a placement (most devices first); None beyond the measured devices.

        What was not measured itself is as its shape; a shape that was not, is interpolated between
        those with as many nodes, or else between fewer and more nodes; and where that would leave
        the measured range, it is the nearest shape, and not `measured`.
        """
        if placement not in self._known:
            self._known[placement] = self._found(placement)
        return self._known[placement]

    def _found(self, placement: tuple[int, ...]) -> Curve | None:
        if placement in self.placements:
            return self.placements[placement]
        nodes, devices = len(placement), sum(placement)
        if devices > self.most_devices:
            return None
        if nodes > self.most_nodes:  # scattered further than anybody measured: it still runs
            return _unmeasured(self._shape(self.most_nodes, devices))
        return self._shape(nodes, devices)

    def _shape(self, nodes: int, devices: int) -> Curve:
        if (nodes, devices) in self.shapes:
            return self.shapes[nodes, devices]
        counts = sorted({n for n, _ in self.shapes})
        if nodes in counts:
            return self._of_nodes(nodes, devices)
        low = max((n for n in counts if n < nodes), default=None)
        high = min(n for n in counts if n > nodes)  # there is one: `nodes` is at most the most
        if low is None:
            return _unmeasured(self._of_nodes(high, devices))
        # Between fewer and more nodes with as many devices each.
        share = (nodes - low) / (high - low)
        ends = [self._of_nodes(n, devices * n / nodes) for n in (low, high)]
        return _between(ends[0], ends[1], share)

    def _of_nodes(self, nodes: int, devices: float) -> Curve:
        there = sorted(d for n, d in self.shapes if n == nodes)
        if devices <= there[0] or devices >= there[-1]:
            nearest = there[0] if devices <= there[0] else there[-1]
            found = self.shapes[nodes, nearest]
            return found if devices == nearest else _unmeasured(found)
        low = max(d for d in there if d <= devices)
        high = min(d for d in there if d >= devices)
        one, other = self.shapes[nodes, low], self.shapes[nodes, high]
        return one if low == high else _between(one, other, (devices - low) / (high - low))


def curve_of(points: Iterable[tuple[float, float, float]]) -> Curve:
    """Return the curve of (local batch, step, sync); points of one batch are averaged."""
    by_batch: dict[float, list[tuple[float, float]]] = {}
    for batch, step, sync in points:
        by_batch.setdefault(batch, []).append((step, sync))
    batches = sorted(by_batch)
    means = np.array([np.mean(by_batch[batch], axis=0) for batch in batches])
    return Curve(np.array(batches, dtype=np.float64), means[:, 0], means[:, 1])


def _between(one: Curve, other: Curve, share: float) -> Curve:
    """Return the curve at `share` of the way from one to other, as far as both go."""
    top = min(one.largest, other.largest)
    batch = np.union1d(one.batch, other.batch)
    batch = batch[batch <= top]
    (step, sync), (step2, sync2) = one.at(batch), other.at(batch)
    return Curve(
        batch,
        step + share * (step2 - step),
        sync + share * (sync2 - sync),
        one.measured and other.measured,
    )


def _unmeasured(curve: Curve) -> Curve:
    return Curve(curve.batch, curve.step, curve.sync, measured=False)
