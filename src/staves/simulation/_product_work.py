"""Beliefs as this product forms them: what one device computes, and how long gradients take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from staves.estimation import Cell, Exchanges, SyncFilter
from staves.scheduling import Rates
from staves.simulation._computing import Computing
from staves.simulation._profile_work import ApplicationRates
from staves.simulation._work import Placement

Array = NDArray[np.float64]

FEWEST_JOBS = 3
"""Past jobs that have run on several devices, from which on they tell more than guesses."""

_NEWS = 0.5
"""Jobs that have ended since, as a share of those that were learned from: fewer change little."""

_MOST_JOBS = 60
_SAME = 0.1  # of ln(seconds): what another batch may change is no news
_LEAST_SYNC = 1e-4  # seconds: less is not told from none


class Learning:
    """The jobs of one run that have ended, and the filter that has learned from them.

    Args:
        types: names of the cluster's types.
        node_sizes: devices of each type on a node.
        largest: the most devices that a job may have.
    """

    def __init__(self, types: Sequence[str], node_sizes: Sequence[int], largest: int) -> None:
        self._shape = tuple(types), tuple(node_sizes), largest
        self._jobs: list[Exchanges] = []
        self._computing: dict[ApplicationRates, Computing] = {}
        self._learned_from = self.version = 0
        self.filter = SyncFilter((), *self._shape)

    def add(self, known: Exchanges) -> None:
        """Note a job that has ended; learn anew where enough have ended since."""
        if not known.sync:
            return
        self._jobs.append(known)
        if len(self._jobs) >= max(FEWEST_JOBS, (1 + _NEWS) * self._learned_from):
            self.filter = SyncFilter(self._jobs[-_MOST_JOBS:], *self._shape)
            self._learned_from = len(self._jobs)
            self.version += 1

    def work(self, shared: ApplicationRates) -> ProductWork:
        """Return one job of an application and batch."""
        if shared not in self._computing:
            self._computing[shared] = Computing(shared, self._shape[2])
        return ProductWork(shared, self._computing[shared], self)


class ProductWork:
    """One job that this product's estimator watches.

    It begins with one-device profiles of each type, as Sia's does; several devices are taken to
    compute as each does alone. How long they exchange gradients is what past jobs tell, and what
    this one has measured since (`estimation.SyncFilter`); while there are fewer than `FEWEST_JOBS`
    and nothing is measured, each further device is taken to cost a fixed share. What the job has
    run on is believed as it was measured. The batch on what it has is that of greatest true
    goodput, since the trainer measures its own steps.

    Args:
        shared: the application's true rates, for this job's batch.
        computing: what one device does alone, for this job's batch.
        past: of the same run.
    """

    def __init__(self, shared: ApplicationRates, computing: Computing, past: Learning) -> None:
        self._shared, self._computing, self._past = shared, computing, past
        self._known = computing.alone
        self._running: tuple[int, Placement] | None = None
        self._at: Placement | None = None
        self._sync: tuple[int, Array | None] | None = None
        self._corrections: dict[int, float] = {}
        self._rates: _Believed | None = None

    @property
    def marks(self) -> tuple[float, ...]:
        """The ends of the epochs, reference samples."""
        return self._shared.marks

    def rate(self, phase: int, placement: Placement) -> float:
        """Return the true goodput; it is learned from once the job has trained there."""
        self._running = phase, placement
        return self._shared.epoch(phase).at(placement)

    def trained(self, phase: int) -> bool:
        """Note what was measured; return False: the batch was chosen by the truth already."""
        if self._running is not None:
            self._measure(*self._running)
            self._running = None
        return False

    def ended(self) -> None:
        """Let jobs that come later know what was measured."""
        self._past.add(self._known)

    def step_work(self, phase: int) -> float:
        """Return the gain of the fixed batch in reference samples; 0 where the batch adapts."""
        return self._shared.step_work(phase)

    def measured(self, phase: int, placement: Placement) -> bool:
        """Say whether the truth there rests on measurements."""
        return self._shared.way(self._shared.number(placement)).measured

    def rates(self, phase: int) -> Rates:
        """Return what is believed of each configuration."""
        if self._rates is None or not self._rates.holds(phase, self._past.version):
            self._rates = self._believed(phase)
        return self._rates

    def _believed(self, phase: int) -> _Believed:
        sync, known, past = self._seconds(), self._known, self._past.filter
        return _Believed(
            self._computing,
            phase,
            self._past.version,
            sync,
            self._corrections,
            lambda: None if sync is None else past.log_std(known),
        )

    def _seconds(self) -> Array | None:
        """Return what exchanges are believed to take; None where nothing tells."""
        if self._sync is None or self._sync[0] != self._past.version:
            told = bool(self._known.sync) or self._past.version > 0
            found = self._past.filter.seconds(self._known) if told else None
            self._sync = self._past.version, found
        return self._sync[1]

    def _measure(self, phase: int, placement: Placement) -> None:
        epoch = self._shared.epoch(phase)
        rate, sync = epoch.at(placement), max(epoch.sync_at(placement), _LEAST_SYNC)
        counts = tuple(sum(nodes) for nodes in placement)
        row = self._computing.row(counts)
        again = self._at == placement and row in self._corrections
        if rate <= 0 or (again and self._shared.batch is not None):
            return  # steps of one batch take as long in every epoch
        self._at = placement
        if sum(counts) > 1:
            cell = Cell(self._slowest(counts), sum(counts), sum(map(len, placement)))
            before = self._known.sync.get(cell)
            if before is None or abs(math.log(sync / before)) > _SAME:
                self._known = replace(self._known, sync={**self._known.sync, cell: sync})
                self._sync = None
        plain = self._computing.goodputs(phase, np.array([row]), self._seconds())
        believed = float(plain[0])
        if believed > 0 and rate / believed != self._corrections.get(row):
            self._corrections = {**self._corrections, row: rate / believed}
        if self._rates is not None and not self._rates.same(self._seconds(), self._corrections):
            self._rates = None

    def _slowest(self, counts: tuple[int, ...]) -> str:
        """Return the type whose links are believed to be what all wait for."""
        used = [g for g, count in enumerate(counts) if count]
        if len(used) > 1:
            sync = self._past.filter.seconds(self._known)
            used.sort(key=lambda g: -float(sync[1, g, sum(counts)]))
        return self._shared.types[used[0]]


class _Believed:
    """Rates of one job in one epoch, as long as nothing else is measured.

    Args:
        computing: of its application.
        epoch: from 0.
        version: of the filter.
        sync: seconds of an exchange; None where nothing tells.
        corrections: true over believed goodput, by row of `computing`.
        deviation: returns how sure `sync` is, as `Computing.log_std` takes it.
    """

    def __init__(
        self,
        computing: Computing,
        epoch: int,
        version: int,
        sync: Array | None,
        corrections: dict[int, float],
        deviation: Callable[[], Array | None],
    ) -> None:
        self._deviation, self._doubts = deviation, np.zeros(0)
        self._computing, self._epoch, self._version = computing, epoch, version
        self._sync, self._corrections = sync, corrections
        self._values, self._factors = np.zeros(0), np.zeros(0)

    def holds(self, epoch: int, version: int) -> bool:
        """Say whether this is what is believed then."""
        return (self._epoch, self._version) == (epoch, version)

    def same(self, sync: Array | None, corrections: dict[int, float]) -> bool:
        """Say whether it is made of these very things."""
        return self._sync is sync and self._corrections is corrections

    def __call__(self, configurations: NDArray[np.int64]) -> Array:
        """Return goodputs (C,), in reference samples a second; 0 where the job cannot run."""
        rows = self._computing.rows(configurations)
        if len(self._values) < len(self._computing):
            self._make_room()
        values = self._values[rows]
        unknown = np.isnan(values)
        if unknown.any():
            new = rows[unknown]
            found = self._computing.goodputs(self._epoch, new, self._sync) * self._factors[new]
            values[unknown] = self._values[new] = found
        return values

    def log_std(self, configurations: NDArray[np.int64]) -> Array:
        """Return the standard deviation of ln(goodput), (C,); 0 for what was measured."""
        rows = self._computing.rows(configurations)
        if len(self._doubts) < len(self._computing):
            every = np.arange(len(self._computing))
            sync, deviation = self._sync, self._deviation()
            self._doubts = self._computing.log_std(self._epoch, every, sync, deviation)
            self._doubts[list(self._corrections)] = 0.0
        return self._doubts[rows]

    def _make_room(self) -> None:
        room, factors = np.full(len(self._computing), np.nan), np.ones(len(self._computing))
        room[: len(self._values)] = self._values
        factors[list(self._corrections)] = list(self._corrections.values())
        self._values, self._factors = room, factors
