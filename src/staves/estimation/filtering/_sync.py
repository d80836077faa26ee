"""How long a job's gradients take on any devices, by what they took so far and those of past jobs.

What one device computes and what links carry are columns of one table, both in samples a second at
one local batch b: x(g, 1) on one device of type g, and n b (2 (n - 1) / n) / s on n devices that
need s seconds for their gradients (a ring all-reduce sends 2 (n - 1) / n of them over each link),
what n devices would reach if nothing but the exchange took time. In the logarithm both are a job's
own level, a type's speed, and reactions to devices and nodes: the table of the collaborative
filter. So a job of which only computing is known is expected to exchange as past jobs that compute
like it, and one that has exchanged on one type as they did on others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError
from staves.estimation.filtering._cells import Cell, CellSpace
from staves.estimation.filtering._covariance import learn
from staves.estimation.filtering._gaussian import Gaussian, Row
from staves.steptime import ring_share

Array = NDArray[np.float64]

_NOISE = 0.01
"""Variance of ln(sync seconds) from one local batch to another, beside what the filter explains."""

_ALONE_NOISE = 1e-4


@dataclass(frozen=True, slots=True)
class Exchanges:
    """What is known of one job.

    Args:
        batch: local batch, samples, at which `alone` was measured.
        alone: samples a second of one device, by type.
        sync: seconds that the gradients of a step took, above zero, on so many devices and nodes.
    """

    batch: float
    alone: Mapping[str, float]
    sync: Mapping[Cell, float] = field(default_factory=dict)


class SyncFilter:
    """What past jobs tell of the exchange of any job.

    Cells thin out: numbers of devices are powers of two, and between them ln(seconds) is a line in
    ln(devices). Devices of one type stand on one node, or on at least two.

    Args:
        past: jobs; may be none, then links are taken to be as fast as their hosts.
        types: G names.
        node_sizes: devices of a node of each type, (G,).
        largest: the most devices.

    Raises:
        InputError: there are not as many sizes as types, or no devices.
    """

    def __init__(
        self,
        past: Sequence[Exchanges],
        types: Sequence[str],
        node_sizes: Sequence[int],
        largest: int,
    ) -> None:
        if len(types) != len(node_sizes) or largest < 1:
            raise InputError(
                f"{len(node_sizes)} sizes of nodes for {len(types)} types, {largest} devices"
            )
        self.past = len(past)
        self._sizes = dict(zip(types, node_sizes, strict=True))
        self._rungs = [1 << power for power in range(1, largest.bit_length() + 1)]
        self._log_rungs = np.log(self._rungs)
        ways = [[self._cells(name, apart) for name in types] for apart in (False, True)]
        alone = [Cell(name, 1) for name in types]
        self._space = CellSpace([*alone, *(c for way in ways for row in way for c in row)])
        self._believed: Gaussian = learn(self._space, [self._row(one) for one in past])
        self._at = np.array([[self._space.index(row) for row in way] for way in ways])  # (2, G, R)
        devices = np.arange(2, largest + 1)
        self._between = np.array(
            [np.interp(np.log(devices), self._log_rungs, one) for one in np.eye(len(self._rungs))]
        )  # (R, N - 1)
        self._log_sent = self._log_rungs + np.log(ring_share(np.array(self._rungs)))

    def seconds(self, known: Exchanges) -> Array:
        """Return the median seconds of a step's exchange, (2, G, N + 1), for up to N devices.

        By whether the devices stand on one node (0) or on several (1), type, and number of devices;
        where one node does not hold them, both are the same. No more than one exchange nothing.
        """
        row = self._row(known)
        noise = np.where(self._space.devices[row.cells] > 1, _NOISE, _ALONE_NOISE)
        across = self._believed.covariance[row.cells]
        left = row.values - self._believed.mean[row.cells]
        weights = np.linalg.solve(across[:, row.cells] + np.diag(noise), left)
        mean = self._believed.mean + weights @ across
        logs = np.log(known.batch) + self._log_sent - mean[self._at]
        found: Array = np.zeros((*self._at.shape[:2], 2 + self._between.shape[1]))
        found[:, :, 2:] = np.exp(logs @ self._between)
        return found

    def log_std(self, known: Exchanges) -> Array:
        """Return the standard deviation of ln(seconds), shaped as `seconds`; 0 for one device."""
        cells = self._row(known).cells
        noise = np.where(self._space.devices[cells] > 1, _NOISE, _ALONE_NOISE)
        across = self._believed.covariance[cells]
        gain = np.linalg.solve(across[:, cells] + np.diag(noise), across)
        covariance = self._believed.covariance - gain.T @ across
        ladders = covariance[self._at[..., :, None], self._at[..., None, :]]  # (2, G, R, R)
        variance = np.einsum("rn,...rs,sn->...n", self._between, ladders, self._between) + _NOISE
        found: Array = np.zeros((*self._at.shape[:2], 2 + self._between.shape[1]))
        found[:, :, 2:] = np.sqrt(np.maximum(variance, 0.0))
        return found

    def _cells(self, name: str, apart: bool) -> list[Cell]:
        return [self._cell(name, rung, apart) for rung in self._rungs]

    def _cell(self, name: str, devices: int, apart: bool) -> Cell:
        nodes = -(-devices // self._sizes[name])
        return Cell(name, devices, max(2, nodes) if apart else nodes)

    def _row(self, known: Exchanges) -> Row:
        """Return what is known, each exchange at the nearest number of devices that is a cell."""
        values = {Cell(name, 1): [float(np.log(rate))] for name, rate in known.alone.items()}
        for cell, seconds in known.sync.items():
            rung = self._rungs[int(np.abs(self._log_rungs - np.log(cell.devices)).argmin())]
            sent = rung * known.batch * float(ring_share(cell.devices))
            nearest = self._cell(cell.device_type, rung, apart=cell.nodes > 1)
            values.setdefault(nearest, []).append(float(np.log(sent / seconds)))
        means = [sum(those) / len(those) for those in values.values()]
        return Row(self._space.index(values), np.array(means, dtype=np.float64))
