"""Jobs whose truth is an application's profile: adaptive or of a fixed batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from staves.scheduling import Counts
from staves.simulation._application import Application
from staves.simulation._ways import Ways, ways
from staves.simulation._work import Placement

Array = NDArray[np.float64]

_MOST_TABLES = 4096  # whose placements are remembered


class ApplicationRates:
    """Goodputs of an application by placement and epoch; all of its jobs share what it remembers.

    Args:
        application: the profile.
        types: names of the cluster's types.
        node_sizes: devices of each type on a node.
        batch: None where the batch adapts: that of greatest goodput, at every epoch and placement.
    """

    def __init__(
        self,
        application: Application,
        types: Sequence[str],
        node_sizes: Sequence[int],
        batch: int | None = None,
    ) -> None:
        self.application = application
        self.types = tuple(types)
        self.node_sizes = tuple(node_sizes)
        self.batch = batch
        self._of_counts: dict[Counts, int] = {}
        self._of_table: dict[bytes, NDArray[np.int64]] = {}
        self._of_placement: dict[Placement, int] = {}
        self._ways: list[Ways] = []
        self._placements: list[Placement] = []
        self._epochs: dict[int, EpochRates] = {}
        self._step_work: dict[int, float] = {}

    @cached_property
    def marks(self) -> tuple[float, ...]:
        """The ends of the epochs, reference samples."""
        ends = self.application.statistics.epoch_ends * self.application.reference
        return tuple(ends.tolist())

    def step_work(self, epoch: int) -> float:
        """Return the reference samples that a step of the fixed batch is worth; else 0.

        Calibrated as rates are, so that a rate over it is steps a second at the profile's speed.
        """
        if self.batch is None:
            return 0.0
        if epoch not in self._step_work:
            gain = self.application.statistics.gain(epoch, np.array(float(self.batch)))
            self._step_work[epoch] = float(gain) * self.application.reference
        return self._step_work[epoch]

    def epoch(self, epoch: int) -> EpochRates:
        """Return the rates in one epoch."""
        if epoch not in self._epochs:
            self._epochs[epoch] = EpochRates(self, epoch)
        return self._epochs[epoch]

    def packed(self, counts: Counts) -> int:
        """Return the number of the placement of `counts` on as few nodes as possible."""
        if counts not in self._of_counts:
            self._of_counts[counts] = self.number(self.placement(counts))
        return self._of_counts[counts]

    def all_packed(self, configurations: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what `packed` does for each of the configurations (C, G), shape (C,)."""
        key = configurations.tobytes()  # policies ask for the same ones again and again
        found = self._of_table.get(key)
        if found is None:
            if len(self._of_table) >= _MOST_TABLES:
                self._of_table.clear()
            numbers = [self.packed(tuple(row)) for row in configurations.tolist()]
            found = self._of_table[key] = np.array(numbers, dtype=np.int64)
        return found

    def placement(self, counts: Counts) -> Placement:
        """Return where `counts` stand on as few nodes as possible."""
        return tuple(
            (size,) * (n // size) + ((n % size,) if n % size else ()) if n else ()
            for n, size in zip(counts, self.node_sizes, strict=True)
        )

    def number(self, placement: Placement) -> int:
        """Return the number of a placement."""
        if placement not in self._of_placement:
            found = ways(self.application, self.types, self.node_sizes, placement, self.batch)
            self._of_placement[placement] = len(self._ways)
            self._ways.append(found)
            self._placements.append(placement)
        return self._of_placement[placement]

    def placement_of(self, number: int) -> Placement:
        """Return a placement by its number."""
        return self._placements[number]

    def way(self, number: int) -> Ways:
        """Return the ways to run on a placement, by its number."""
        return self._ways[number]

    def __len__(self) -> int:
        return len(self._ways)


class EpochRates:
    """The greatest goodput of each configuration in one epoch, in reference samples a second.

    Args:
        shared: the application's placements.
        epoch: from 0.
    """

    fixed = True
    """As of `scheduling.is_fixed`."""

    def __init__(self, shared: ApplicationRates, epoch: int) -> None:
        self._shared, self._epoch = shared, epoch
        self._best = np.full(0, np.nan)
        self._batch = np.zeros(0)
        self._way = np.zeros(0, dtype=np.int64)

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return rates (C,) of configurations (C, G), each on as few nodes as possible."""
        return self._values(self._shared.all_packed(configurations))

    def at(self, placement: Placement) -> float:
        """Return the rate on one placement."""
        number = self._shared.number(placement)
        self._know(number)
        return float(self._best[number])

    def batch_at(self, placement: Placement) -> float:
        """Return the batch of that rate, in samples; 0 where the job cannot run."""
        number = self._shared.number(placement)
        self._know(number)
        return float(self._batch[number])

    def sync_at(self, placement: Placement) -> float:
        """Return the seconds of a step's gradients at that batch; 0 where the job cannot run."""
        number = self._shared.number(placement)
        self._know(number)
        way = self._shared.way(number)
        return float(way.sync[self._way[number]]) if len(way.sync) else 0.0

    def _know(self, number: int) -> None:
        self._make_room()
        if math.isnan(self._best[number]):
            self._compute(np.array([number]))

    def _values(self, wanted: NDArray[np.int64]) -> Array:
        self._make_room()
        values = self._best[wanted]
        unknown = np.isnan(values)
        if unknown.any():
            self._compute(np.unique(wanted[unknown]))
            values = self._best[wanted]
        return values

    def _make_room(self) -> None:
        if len(self._best) < len(self._shared):
            more = len(self._shared)  # twice as much: placements come to be known one by one
            self._best = np.append(self._best, np.full(more, np.nan))
            self._batch = np.append(self._batch, np.zeros(more))
            self._way = np.append(self._way, np.zeros(more, dtype=np.int64))

    def _compute(self, numbers: NDArray[np.int64]) -> None:
        found = [self._shared.way(number) for number in numbers.tolist()]
        most = max(1, *(len(way.batch) for way in found))
        batch, seconds = np.ones((len(found), most)), np.full((len(found), most), np.inf)
        for row, way in enumerate(found):
            batch[row, : len(way.batch)] = way.batch
            seconds[row, : len(way.batch)] = way.seconds
        application = self._shared.application
        steps = application.statistics.gain(self._epoch, batch) / seconds / application.calibration
        best = steps.argmax(axis=1)
        rows = np.arange(len(found))
        self._way[numbers] = best
        self._best[numbers] = steps[rows, best] * application.reference
        self._batch[numbers] = np.where(steps[rows, best] > 0, batch[rows, best], 0.0)


class ProfileWork:
    """One job of an application, whose beliefs are the truth.

    Args:
        shared: the application's rates, for this job's batch.
    """

    def __init__(self, shared: ApplicationRates) -> None:
        self._shared = shared

    @property
    def marks(self) -> tuple[float, ...]:
        """The ends of the epochs, reference samples."""
        return self._shared.marks

    def rate(self, phase: int, placement: Placement) -> float:
        """Return the goodput on a placement."""
        return self._shared.epoch(phase).at(placement)

    def trained(self, phase: int) -> bool:
        """Return False: there is nothing to learn."""
        return False

    def rates(self, phase: int) -> EpochRates:
        """Return the goodputs by configuration."""
        return self._shared.epoch(phase)

    def step_work(self, phase: int) -> float:
        """Return the gain of the fixed batch in reference samples; 0 where the batch adapts."""
        return self._shared.step_work(phase)

    def measured(self, phase: int, placement: Placement) -> bool:
        """Say whether all of it was measured, or lies between what was."""
        return self._shared.way(self._shared.number(placement)).measured
