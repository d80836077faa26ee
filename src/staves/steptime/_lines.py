"""Every device's time as a maximum of lines, in arrays over devices."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from staves.steptime._model import Communication, Device

Array = NDArray[np.float64]

_FIELDS = attrgetter(
    "forward.fixed", "forward.per_sample", "forward.floor",
    "backward.fixed", "backward.per_sample", "backward.floor",
    "min_batch", "max_batch", "idle",
)  # fmt: skip


class Lines:
    """Times of `n` devices; a convex nondecreasing function of the local batch for each.

    Rounding is monotone, so `formula` never decreases in the batch, in floats as on paper: it is
    the one truth that integer splits compare. The lines serve only to invert it.

    Attributes:
        minimums: fewest samples of each device, shape (n,).
        caps: most samples of each device, shape (n,); inf where there is no bound.
        idle_seconds: t_i(0) where `idle` is given, else nan, shape (n,).
        has_idle: whether any device gives `idle`.
    """

    def __init__(self, table: Array, ready: Array, wire: Array) -> None:
        """Build from `table` (9, n), the rows as in _FIELDS, and the buckets' two arrays (K,)."""
        self._forward, self._backward = table[0:3], table[3:6]
        self._ready = ready.tolist()
        remaining = np.cumsum(wire[::-1])[::-1]
        self._remaining = remaining.tolist()
        self.minimums, self.caps = table[6], table[7]
        self.idle_seconds = table[8] + remaining[0]
        self.has_idle = not bool(np.isnan(table[8]).all())
        self._bottom: Array | None = None
        self._anchors, self._inverse_slopes = _invertible(
            self._forward, self._backward, ready[:, None], remaining[:, None]
        )

    @classmethod
    def of(cls, devices: Sequence[Device], communication: Communication) -> Lines:
        """Gather `devices` into arrays."""
        rows = [_FIELDS(device) for device in devices]
        table = np.array(rows, dtype=np.float64).T.copy()  # None becomes nan
        table[7] = np.where(np.isnan(table[7]), np.inf, table[7])
        return cls(table, np.array(communication.ready), np.array(communication.seconds))

    def __len__(self) -> int:
        return len(self.minimums)

    def with_bottom(self, bottom: Array) -> Lines:
        """Return the same devices, each never faster than `bottom` seconds, shape (n,)."""
        lines = copy.copy(self)
        lines._bottom = bottom
        return lines

    def formula(self, batches: Array, index: NDArray[np.intp] | None = None) -> Array:
        """Return t_i(b) by the lines alone, `idle` ignored.

        Args:
            batches: samples, shape (..., n), or (m,) with `index`.
            index: the device of each of the `m` batches; None: all devices in order.
        """
        fixed, per_sample, floor = self._forward if index is None else self._forward[:, index]
        forward = np.maximum(floor, fixed + per_sample * batches)
        fixed, per_sample, floor = self._backward if index is None else self._backward[:, index]
        backward = np.maximum(floor, fixed + per_sample * batches)
        result: Array = forward + self._ready[0] * backward + self._remaining[0]
        for ready, remaining in zip(self._ready[1:], self._remaining[1:], strict=True):
            np.maximum(result, forward + ready * backward + remaining, out=result)
        if self._bottom is not None:
            np.maximum(result, self._bottom if index is None else self._bottom[index], out=result)
        return result

    def seconds(self, batches: Array) -> Array:
        """Return t_i(b), shape (..., n), `idle` counted where a device holds no sample."""
        result = self.formula(batches)
        if self.has_idle:
            rests = (batches == 0) & ~np.isnan(self.idle_seconds)
            result = np.where(rests, self.idle_seconds, result)
        return result

    def last_bucket_seconds(self, batches: Array) -> Array:
        """Return the time of the last bucket's line alone, a_i + P_i + its seconds on the wire."""
        fixed, per_sample, floor = self._forward
        forward = np.maximum(floor, fixed + per_sample * batches)
        fixed, per_sample, floor = self._backward
        backward = np.maximum(floor, fixed + per_sample * batches)
        result: Array = forward + backward + self._remaining[-1]
        if self.has_idle:
            rests = (batches == 0) & ~np.isnan(self.idle_seconds)
            idle = self.idle_seconds - self._remaining[0] + self._remaining[-1]
            result = np.where(rests, idle, result)
        return result

    def inverse(self, level: float) -> Array:
        """Return the largest b with t_i(b) <= level, shape (n,), for levels not below t_i(0).

        Flat pieces give their right end, and inf where the time never rises.
        """
        lines = self._inverses(level)
        least: Array = lines.min(axis=0, initial=np.inf)
        return least

    def inverse_and_slope(self, level: float) -> tuple[Array, Array]:
        """Return `inverse` and its derivative in samples a second, both (n,)."""
        lines = self._inverses(level)
        if not len(lines):
            return np.full(len(self), np.inf), np.zeros(len(self))
        if len(lines) == 1:
            return lines[0], self._inverse_slopes[0]
        active = lines.argmin(axis=0)[None]
        inverse: Array = np.take_along_axis(lines, active, axis=0)[0]
        return inverse, np.take_along_axis(self._inverse_slopes, active, axis=0)[0]

    def _inverses(self, level: float) -> Array:
        """Return how many samples each line holds within `level`, (L, n)."""
        with np.errstate(over="ignore"):  # a line that hardly rises holds any number: inf
            lines: Array = (level - self._anchors) * self._inverse_slopes
        return lines


def _invertible(
    forward: Array, backward: Array, ready: Array, remaining: Array
) -> tuple[Array, Array]:
    """Return intercepts and inverse slopes (L, n) of the lines that rise; L <= 4 K.

    Lines that do not rise hold no inverse: their anchor of -inf makes them harmless.
    """
    anchors, inverse_slopes = [], []
    for a_fixed, a_slope in _pieces(forward):
        for p_fixed, p_slope in _pieces(backward):
            slope = a_slope + ready * p_slope
            rises = slope > 1e-290  # the inverse of a smaller one overflows
            anchors.append(np.where(rises, a_fixed + ready * p_fixed + remaining, -np.inf))
            inverse_slopes.append(1 / np.where(rises, slope, 1.0))
    anchor, inverse = np.concatenate(anchors), np.concatenate(inverse_slopes)
    used = np.isfinite(anchor).any(axis=1)
    return anchor[used], inverse[used]


def _pieces(phase: Array) -> list[tuple[Array, Array]]:
    """Return (intercept, slope) of a phase's one or two lines."""
    fixed, per_sample, floor = phase
    pieces = [(fixed, per_sample)]
    if np.any(floor > fixed):
        pieces.append((floor, np.zeros_like(floor)))
    return pieces
