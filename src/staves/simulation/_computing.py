"""What an application computes on any configuration, as its profiles on one device have it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from staves.estimation import Exchanges, efficiency
from staves.scheduling import Counts
from staves.simulation._application import Application
from staves.simulation._curves import Curve, StepTable
from staves.simulation._profile_work import ApplicationRates
from staves.simulation._ways import Ways

Array = NDArray[np.float64]

_GUESS_LOG_STD = 0.3
"""How sure goodputs on several devices are where nothing tells what an exchange takes."""

_TRIED = 17
"""Batches that are weighed for a configuration: the best of so few is hardly worse than of all."""


class Computing:
    """Goodputs by configuration and epoch, for any exchange of gradients.

    Several devices compute as each does alone. All jobs of an application and batch share what is
    remembered here; what they believe of their exchange is each one's own.

    Args:
        truth: the application's rates, of which only what one device alone does is looked at.
        largest: the most devices of which exchanges are believed; more take as long.
    """

    def __init__(self, truth: ApplicationRates, largest: int) -> None:
        self._largest = largest
        self._application = truth.application
        self._silent = ApplicationRates(
            _silent(truth.application, truth.types), truth.types, truth.node_sizes, truth.batch
        )
        self._types = len(truth.types)
        self._sizes = np.array(truth.node_sizes)
        tables = self._silent.application.tables
        alone = {name: table.curve((1,)) for name, table in tables.items()}
        curves = {name: curve for name, curve in alone.items() if curve is not None}
        batch = min((curve.largest for curve in curves.values()), default=1.0)
        speeds = {
            name: batch / float(curve.at(np.array([batch]))[0][0]) for name, curve in curves.items()
        }
        self.alone = Exchanges(batch, speeds)
        """What is known of each of its jobs before it has run."""
        self._batch = self._seconds = np.zeros((0, 1))
        self._links = np.zeros((0, self._types), dtype=np.int64)
        self._devices = np.zeros(0, dtype=np.int64)
        self._worth: dict[int, Array] = {}

    def rows(self, configurations: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where configurations (C, G) stand among all that were asked for, (C,)."""
        found = self._silent.all_packed(configurations)
        self._know()
        return found

    def row(self, counts: Counts) -> int:
        """Return where one configuration stands."""
        found = self._silent.packed(counts)
        self._know()
        return found

    def __len__(self) -> int:
        return len(self._devices)

    def goodputs(self, epoch: int, rows: NDArray[np.int64], sync: Array | None) -> Array:
        """Return the greatest goodput over batches, in reference samples a second, (R,).

        Args:
            epoch: from 0.
            rows: of the configurations, (R,).
            sync: seconds of an exchange as `SyncFilter.seconds` has them; None where nothing tells:
                each further device is taken to cost a fixed share.
        """
        worth, seconds = self._worth_of(epoch)[rows], self._seconds[rows]
        if sync is None:
            found: Array = (worth / seconds).max(axis=1) * efficiency(self._devices[rows])
            return found
        # Unlike devices wait for the slowest links.
        exchange = sync.ravel()[self._links[rows]].max(axis=1)
        found = (worth / (seconds + exchange[:, None])).max(axis=1)
        return found

    def log_std(
        self,
        epoch: int,
        rows: NDArray[np.int64],
        sync: Array | None,
        deviation: Array | None,
    ) -> Array:
        """Return the standard deviation of ln(goodput), (R,), at the batch of greatest goodput.

        An exchange that is off by a part of itself is a smaller part of the whole step.

        Args:
            epoch, rows, sync: as of `goodputs`.
            deviation: of ln(seconds) of an exchange, shaped as `sync`; None where nothing tells.
        """
        several = self._devices[rows] > 1
        if sync is None or deviation is None:
            guess: Array = np.where(several, _GUESS_LOG_STD, 0.0)
            return guess
        worth, seconds = self._worth_of(epoch)[rows], self._seconds[rows]
        links, every = self._links[rows], np.arange(len(rows))
        slowest = links[every, sync.ravel()[links].argmax(axis=1)]
        exchange = sync.ravel()[slowest]
        best = (worth / (seconds + exchange[:, None])).argmax(axis=1)
        share = exchange / (seconds[every, best] + exchange)
        found: Array = share * deviation.ravel()[slowest]
        return found

    def _worth_of(self, epoch: int) -> Array:
        """Return the reference samples that a step of each batch is worth, as far as is known."""
        known = self._worth.get(epoch)
        if known is None or known.shape[1] < self._batch.shape[1]:
            known = np.zeros((0, self._batch.shape[1]))
        if len(known) < len(self._batch):
            application = self._application
            gain = application.statistics.gain(epoch, self._batch[len(known) :])
            more = gain * (application.reference / application.calibration)
            known = self._worth[epoch] = np.concatenate([known, more])
        return known

    def _know(self) -> None:
        """Take up the placements that have been asked for since."""
        before, now = len(self._devices), len(self._silent)
        if before == now:
            return
        new = [_thinned(self._silent.way(number)) for number in range(before, now)]
        most = max(self._batch.shape[1], *(len(batch) for batch, _ in new))
        batch, seconds = np.ones((now, most)), np.full((now, most), np.inf)
        batch[:before, : self._batch.shape[1]] = self._batch
        seconds[:before, : self._batch.shape[1]] = self._seconds
        for row, (batches, times) in enumerate(new, before):
            batch[row, : len(batches)], seconds[row, : len(times)] = batches, times
        self._batch, self._seconds = batch, seconds
        counts = np.array(
            [
                [sum(nodes) for nodes in self._silent.placement_of(number)]
                for number in range(before, now)
            ]
        )
        devices = counts.sum(axis=1)
        mixed = ((counts > 0).sum(axis=1) > 1).astype(np.int64)
        kinds = np.arange(self._types)
        links = (mixed[:, None] * self._types + kinds) * (self._largest + 1)
        links = np.where(counts > 0, links + np.minimum(devices, self._largest)[:, None], 0)
        self._links = np.concatenate([self._links, links])
        self._devices = np.concatenate([self._devices, devices])


def _silent(application: Application, types: tuple[str, ...]) -> Application:
    """Return the application if gradients took no time, and devices did as each does alone."""
    tables = {}
    for name in types:
        table = application.tables.get(name)
        curve = None if table is None else table.curve((1,))
        if table is None or curve is None:
            continue
        alone = Curve(curve.batch, curve.step - curve.sync, np.zeros(len(curve.batch)))
        tables[name] = StepTable({}, dict.fromkeys(table.shapes, alone))
    return replace(application, tables=tables)


def _thinned(way: Ways) -> tuple[Array, Array]:
    """Return some of the batches, evenly, the smallest and the largest among them."""
    every = np.linspace(0, len(way.batch) - 1, min(_TRIED, len(way.batch))).astype(np.int64)
    return way.batch[every], way.seconds[every]
