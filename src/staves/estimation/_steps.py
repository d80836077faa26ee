"""Step times at the optimal split for many configurations at once.

Devices of one type are alike, so a configuration is a count by type, and the split that minimises
the step time is found for all configurations in the same few array operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError
from staves.hardware import Layout
from staves.steptime import (
    FREE,
    Communication,
    Device,
    Line,
    Ring,
    StepTimeModel,
    ring_to_expect,
)

Array = NDArray[np.float64]

_STEPS = 200  # Newton's, each of which ends on another piece of a concave function


@dataclass(frozen=True)
class TypeLines:
    """The step-time model of a job by device type.

    Args:
        types: G names.
        lines: forward and backward pass of each type.
        bounds: fewest and most samples of a device of each type.
        communication: as measured with `world_size` devices, None where it is not known: then
            gradients cost nothing here. A ring sends 2 (n - 1) / n of the bytes over each link.
        world_size: at least 2 where communication is known.
        rings: by types; where there are any, each configuration has the communication of the ring
            that tells most of it (`ring_to_expect`), else all have the one above.
        layout: of the nodes; None where they are not known: then a configuration may be in one
            node or over several.

    Raises:
        InputError: communication of fewer than two devices.
    """

    types: tuple[str, ...]
    lines: tuple[tuple[Line, Line], ...]
    bounds: tuple[tuple[int, int | None], ...]
    communication: Communication | None = None
    world_size: int = 1
    rings: tuple[Ring, ...] = ()
    layout: Layout | None = None

    def __post_init__(self) -> None:
        if self.communication is not None and self.world_size < 2:
            raise InputError("communication is measured between two devices at least")

    def communication_of(self, counts: tuple[int, ...]) -> Communication:
        """Return the communication of one configuration."""
        devices, ring = sum(counts), self._ring_of(counts)
        return FREE if ring is None or devices < 2 else ring.of(devices)

    def _ring_of(self, counts: tuple[int, ...]) -> Ring | None:
        """Return the ring that tells most of a configuration."""
        if self.communication is None:
            return None
        used = tuple(place for place, count in enumerate(counts) if count)
        across = None if self.layout is None else bool(self._across(np.array([counts]))[0])
        key = used, across
        if key not in self._expected:
            types = [self.types[g] for g in used]
            link = self.layout.link(types) if self.layout else None
            ring = ring_to_expect(self.rings, types, across=across, link=link)
            self._expected[key] = ring or Ring((), (), self.world_size, self.communication)
        return self._expected[key]

    def _across(self, configurations: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return of which configurations (C, G) no node has all devices, (C,)."""
        fits = np.all(configurations[:, None, :] <= self._shapes, axis=2)
        across: NDArray[np.bool_] = ~np.any(fits, axis=1)
        return across

    @cached_property
    def _shapes(self) -> NDArray[np.int64]:
        """Devices by type of each node that is unlike the others, (S, G)."""
        shapes = self.layout.shapes if self.layout else ()
        rows = [[shape.count(name) for name in self.types] for shape in shapes]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.types))

    @cached_property
    def _expected(self) -> dict[tuple[tuple[int, ...], bool | None], Ring]:
        return {}

    def model(self, counts: tuple[int, ...]) -> StepTimeModel:
        """Return the step-time model of one configuration, devices in the order of the types."""
        return StepTimeModel(
            tuple(
                Device(f"{name}-{index}", name, *pair, *bound)
                for name, pair, bound, count in zip(
                    self.types, self.lines, self.bounds, counts, strict=True
                )
                for index in range(count)
            ),
            self.communication_of(counts),
        )

    def step_seconds(self, batch: int, configurations: NDArray[np.int64]) -> Array:
        """Return the step time of `batch` samples at the optimal split in whole samples.

        What `steptime.integer_split` gives for `model` of each row: water-filling by Newton's
        method from the left, and then the samples that rounding down left over, in the order of
        the times at which devices could take them.

        Args:
            batch: samples a step.
            configurations: shape (C, G).

        Returns:
            seconds, shape (C,); inf where the devices do not hold the batch, or there are none.
        """
        result = np.full(len(configurations), np.inf)
        minimums, caps = self._bounds
        caps = np.minimum(caps, np.maximum(batch, minimums))
        fits = configurations.any(axis=1)
        fits &= (configurations @ minimums <= batch) & (configurations @ caps >= batch)
        for ring, rows in self._by_ring(configurations, np.flatnonzero(fits)):
            filling = _Filling(self, ring, batch, configurations[rows], minimums, caps)
            result[rows] = filling.step_seconds()
        return result

    def _by_ring(
        self, configurations: NDArray[np.int64], rows: NDArray[np.intp]
    ) -> list[tuple[Ring | None, NDArray[np.intp]]]:
        """Return the rows by the ring that tells most of their configurations."""
        if not len(rows):
            return []
        if self.communication is None or not self.rings:
            return [(self._ring_of(tuple(configurations[rows[0]].tolist())), rows)]
        used = configurations[rows] > 0
        if self.layout is not None:
            used = np.column_stack([used, self._across(configurations[rows])])
        kinds, kind_of = np.unique(used, axis=0, return_inverse=True)
        kind_of = kind_of.reshape(-1)
        rings: dict[int, tuple[Ring | None, list[NDArray[np.intp]]]] = {}
        for kind in range(len(kinds)):
            own = rows[kind_of == kind]
            ring = self._ring_of(tuple(configurations[own[0]].tolist()))
            rings.setdefault(id(ring), (ring, []))[1].append(own)
        return [(ring, np.concatenate(several)) for ring, several in rings.values()]

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        lows = [float(low) for low, _ in self.bounds]
        highs = [np.inf if high is None else float(high) for _, high in self.bounds]
        return np.array(lows), np.array(highs)

    @cached_property
    def table(self) -> Array:
        """Fixed, per sample and floor of the forward pass, then of the backward pass: (6, G)."""
        rows = [
            (f.fixed, f.per_sample, f.floor, b.fixed, b.per_sample, b.floor) for f, b in self.lines
        ]
        return np.array(rows, dtype=np.float64).T


class _Filling:
    """C configurations that all hold the batch."""

    def __init__(
        self,
        lines: TypeLines,
        ring: Ring | None,
        batch: int,
        configurations: NDArray[np.int64],
        minimums: Array,
        caps: Array,
    ) -> None:
        self.batch, self.counts, self.caps = batch, configurations, caps
        self.has = configurations > 0
        self.minimums = np.broadcast_to(minimums, configurations.shape)
        self.table = lines.table
        ring = ring or Ring((), (), 2, FREE)
        self.ready = np.array(ring.communication.ready)
        seconds = ring.seconds_of(configurations.sum(axis=1))
        # (C, K): from each bucket to the last
        self.wire = np.cumsum(seconds[:, ::-1], axis=1)[:, ::-1]
        self._invertible()

    def step_seconds(self) -> Array:
        """Return the least T at which the devices hold the batch in whole samples, (C,)."""
        level = self._level()
        held = np.floor(self._holds(level) * (1 + 1e-12))  # what is whole but for rounding
        held = np.clip(held, self.minimums, self.caps)
        held = np.where(self.has, held, 0.0)
        missing = self.batch - (self.counts * held).sum(axis=1)
        floor = self._worst(held)
        return np.maximum(floor, self._last_sample(held, missing))

    def _level(self) -> Array:
        """Return the step time of the split in fractions, (C,).

        No step is faster than the slowest device at its minimum, and above that time what the
        devices hold together is concave in the time: Newton's steps never overshoot.
        """
        level = self._worst(self.minimums)
        for _ in range(_STEPS):
            inverse = self._inverses(level)  # (C, L, G)
            active = inverse.argmin(axis=1)[:, None]
            batches = np.take_along_axis(inverse, active, axis=1)[:, 0]
            slopes = np.take_along_axis(
                np.broadcast_to(self._slopes, inverse.shape), active, axis=1
            )[:, 0]
            holds = np.clip(batches, self.minimums, self.caps)
            gap = self.batch - (self.counts * holds).sum(axis=1)
            rising = np.where(batches < self.caps, slopes, 0.0)
            steep = (self.counts * rising).sum(axis=1)
            step = np.where((gap > 0) & (steep > 0), gap / np.where(steep > 0, steep, 1.0), 0.0)
            following = level + step
            if (following <= level).all():
                break
            level = following
        return level

    def _last_sample(self, held: Array, missing: Array) -> Array:
        """Return the time of the last of the `missing` samples, (C,); -inf where none is.

        Each type offers its next samples, in as many copies as it has devices. A time is right when
        no type's last offer lies below it: it might offer more.
        """
        result = np.full(len(held), -np.inf)
        rows = np.flatnonzero(missing > 0)
        depth = 4
        while len(rows):
            extra = held[rows, :, None] + np.arange(1, depth + 1)  # (R, G, E)
            times = self._seconds(extra, rows)
            offered = self.has[rows, :, None] & (extra <= self.caps[:, None])
            times = np.where(offered, times, np.inf)
            flat = times.reshape(len(rows), -1)
            copies = np.broadcast_to(self.counts[rows, :, None], times.shape)
            order = np.argsort(flat, axis=1, kind="stable")
            given = np.take_along_axis(copies.reshape(len(rows), -1), order, axis=1).cumsum(axis=1)
            enough = given >= missing[rows, None]
            last = enough.argmax(axis=1)
            found = np.take_along_axis(flat, order, axis=1)[np.arange(len(rows)), last]
            found = np.where(enough.any(axis=1), found, np.inf)
            more = (offered[:, :, -1] & (times[:, :, -1] < found[:, None])).any(axis=1)
            result[rows] = found
            rows = rows[more]
            depth *= 4
        return result

    def _worst(self, held: Array) -> Array:
        """Return the greatest time of the devices that there are, (C,)."""
        times = self._seconds(held[:, :, None], np.arange(len(held)))[:, :, 0]
        worst: Array = np.where(self.has, times, -np.inf).max(axis=1)
        return worst

    def _seconds(self, batches: Array, rows: NDArray[np.intp]) -> Array:
        """Return t_g(b) for batches (R, G, E) of the configurations `rows`."""
        a_fixed, a_slope, a_floor, p_fixed, p_slope, p_floor = self.table[:, None, :, None]
        forward = np.maximum(a_floor, a_fixed + a_slope * batches)
        backward = np.maximum(p_floor, p_fixed + p_slope * batches)
        result = np.full(batches.shape, -np.inf)
        for ready, wire in zip(self.ready, self.wire[rows].T, strict=True):
            np.maximum(result, forward + ready * backward + wire[:, None, None], out=result)
        return result

    def _invertible(self) -> None:
        """Gather all lines that may bound a type's time: (C, L, G) starts, (L, G) slopes."""
        a_fixed, a_slope, a_floor, p_fixed, p_slope, p_floor = self.table
        zero = np.zeros_like(a_slope)
        starts, slopes = [], []
        for k, ready in enumerate(self.ready):
            for a, a_s in ((a_fixed, a_slope), (a_floor, zero)):
                for p, p_s in ((p_fixed, p_slope), (p_floor, zero)):
                    slope = a_s + ready * p_s
                    if not slope.any():
                        continue  # a line that does not rise bounds no batch
                    starts.append((a + ready * p)[None] + self.wire[:, k, None])
                    slopes.append(slope)
        shape = (len(self.counts), 0, len(a_fixed))
        self._starts = np.stack(starts, axis=1) if starts else np.zeros(shape)
        rises = np.array(slopes).reshape(len(slopes), len(a_fixed))
        self._rises = rises > 1e-290  # the inverse of a smaller one overflows
        self._slopes = np.where(self._rises, 1 / np.where(self._rises, rises, 1.0), 0.0)
        if not starts:  # nothing takes any time: a line of its own keeps the arrays alike
            self._starts = np.zeros((len(self.counts), 1, len(a_fixed)))
            self._rises = np.zeros((1, len(a_fixed)), dtype=bool)
            self._slopes = np.zeros((1, len(a_fixed)))

    def _inverses(self, level: Array) -> Array:
        """Return how many samples each line holds within `level` (C,): (C, L, G)."""
        with np.errstate(over="ignore"):
            samples = (level[:, None, None] - self._starts) * self._slopes
        inverses: Array = np.where(self._rises, samples, np.inf)
        return inverses

    def _holds(self, level: Array) -> Array:
        held: Array = np.clip(self._inverses(level).min(axis=1), self.minimums, self.caps)
        return held
