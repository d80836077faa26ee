"""Sia's throughput model, fitted to the points that a job has been seen at.

The model is that of Pollux (OSDI '21, section 3.2) and Sia (SOSP '23, section 3.2): computing is
linear in the local batch, the network's time in the number of devices, and the two overlap as in a
p-norm. Seven numbers by device type; all fits are of one type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from staves.errors import InputError

Array = NDArray[np.float64]

_LEAST, _START, _MOST_OVERLAP = 1e-8, (0.1, 0.01), 10.0
_OVERLAP_WEIGHT, _GROWTH_WEIGHT = 1e-3, 1e-2
_TOLERANCE = 1e-5
"""Those of AdaptDL, where Pollux and Sia fit: a start and an end elsewhere is another belief."""

_INTER_OVER_INTRA = 1.1  # how much slower links between nodes are taken to be until they were used


@dataclass(frozen=True, slots=True)
class Point:
    """One placement and batch that was seen on one device type.

    Args:
        nodes: how many the devices stood on.
        devices: how many.
        local_batch: samples of each device in one backward pass.
        compute_seconds: of one such pass, without gradients' synchronisation.
        step_seconds: of the last pass of a step, with it.
    """

    nodes: int
    devices: int
    local_batch: float
    compute_seconds: float
    step_seconds: float


@dataclass(frozen=True, slots=True)
class ThroughputFit:
    """The seven parameters: seconds, but for `overlap`.

    Args:
        fixed, per_sample: of a pass over a local batch.
        inter, inter_growth: of the network between nodes, and for each device beyond two.
        intra, intra_growth: of the network within one node.
        overlap: of computing and network, the p of the norm: 1 none, 10 (next to) full.
    """

    fixed: float
    per_sample: float
    inter: float
    inter_growth: float
    intra: float
    intra_growth: float
    overlap: float

    def compute_seconds(self, local_batch: ArrayLike) -> Array:
        """Return the time of a pass without synchronisation, of the shape of `local_batch`."""
        return self.fixed + self.per_sample * np.asarray(local_batch, dtype=np.float64)

    def network_seconds(self, nodes: ArrayLike, devices: ArrayLike) -> Array:
        """Return the time of the network alone, of the broadcast shape; next to 0 on one device."""
        nodes, devices = np.asarray(nodes), np.asarray(devices)
        further = np.maximum(devices - 2, 0)
        within = self.intra + self.intra_growth * further
        between = self.inter + self.inter_growth * further
        return np.where(nodes > 1, between, np.where(devices > 1, within, _LEAST))

    def step_seconds(
        self,
        nodes: ArrayLike,
        devices: ArrayLike,
        local_batch: ArrayLike,
        accumulation: ArrayLike = 0,
    ) -> Array:
        """Return the time of a step with so many passes before the last, of the broadcast shape."""
        compute = self.compute_seconds(local_batch)
        network = self.network_seconds(nodes, devices)
        most, least = np.maximum(compute, network), np.minimum(compute, network)
        last = most * (1 + (least / most) ** self.overlap) ** (1 / self.overlap)
        total: Array = np.asarray(accumulation) * compute + last
        return total


def fit_throughput(points: Iterable[Point]) -> ThroughputFit:
    """Return the fit of least root-mean-square error in the logarithms of both times.

    To it come 1e-3 (overlap - 1)^2 and 1e-2 (growth / network)^2 for either network, which prefer
    jobs that scale. What no point tells keeps a hopeful value: a single local batch is half fixed
    time; a network that was not used takes none, that between nodes at least 1.1 times that within.

    Fits are remembered by their points, in their order.

    Raises:
        InputError: no points, or a count or time that is not above zero.
    """
    return _fit(tuple(points))


@lru_cache(maxsize=65536)
def _fit(points: tuple[Point, ...]) -> ThroughputFit:
    from scipy.optimize import Bounds, minimize  # loads for longer than many fits take

    if not points:
        raise InputError("nothing to fit", hint="a throughput model needs one point at least")
    table = np.array(
        [(p.nodes, p.devices, p.local_batch, p.compute_seconds, p.step_seconds) for p in points]
    )
    if not (np.isfinite(table).all() and (table > 0).all()):
        raise InputError("points of a throughput model must be finite and above zero")
    nodes, devices, local, compute, _ = table.T
    start = np.array([*_START * 3, 1 + 1e-3])
    lower = np.array([_LEAST] * 6 + [1.0])
    upper = np.array([np.inf] * 6 + [_MOST_OVERLAP])
    fixed: dict[int, float] = {}
    if (local == local[0]).all():
        fixed[0] = float(compute.mean()) / 2
    if not (nodes > 1).any():
        fixed |= {2: _LEAST, 3: _LEAST}
    if not ((nodes == 1) & (devices > 1)).any():
        fixed |= {4: _LEAST, 5: _LEAST}
    if not (devices > 2).any():
        fixed |= {3: _LEAST, 5: _LEAST}
    for index, value in fixed.items():
        start[index] = lower[index] = upper[index] = value
    result = minimize(
        _Loss(table),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(lower, upper),
        tol=_TOLERANCE,
    )
    found = result.x.tolist()
    if not (nodes > 1).any():
        found[2] = max(found[2], found[4] * _INTER_OVER_INTRA)
        found[3] = max(found[3], found[5] * _INTER_OVER_INTRA)
    return ThroughputFit(*found)


class _Loss:
    """The loss and its gradient by the seven parameters, in the order of `ThroughputFit`."""

    def __init__(self, table: Array) -> None:
        nodes, devices, self._local, compute, step = table.T
        further = np.maximum(devices - 2, 0)
        inter, intra = nodes > 1, (nodes == 1) & (devices > 1)
        # Network = sum of parameters 2..5 times these columns.
        self._network = np.stack([inter, inter * further, intra, intra * further], axis=1)
        self._alone = np.where(inter | intra, 0.0, _LEAST)
        self._log_compute, self._log_step = np.log(compute), np.log(step)

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        overlap = parameters[6]
        compute = parameters[0] + parameters[1] * self._local
        network = self._network @ parameters[2:6] + self._alone
        log_compute, log_network = np.log(compute), np.log(network)
        log_step = np.logaddexp(overlap * log_compute, overlap * log_network) / overlap
        share = np.exp(overlap * (log_compute - log_step))  # of computing, in the norm

        error, weight = _root_mean_square(log_compute - self._log_compute)
        by_compute = weight / compute
        step_error, weight = _root_mean_square(log_step - self._log_step)
        by_compute += weight * share / compute
        by_network = weight * (1 - share) / network
        by_overlap = (share * log_compute + (1 - share) * log_network - log_step) / overlap

        gradient = np.empty(7)
        gradient[0], gradient[1] = by_compute.sum(), by_compute @ self._local
        gradient[2:6] = by_network @ self._network
        gradient[6] = weight @ by_overlap + 2 * _OVERLAP_WEIGHT * (overlap - 1)
        loss = error + step_error + _OVERLAP_WEIGHT * (overlap - 1) ** 2
        for first in (2, 4):
            network_seconds, growth = parameters[first], parameters[first + 1]
            ratio = growth / network_seconds
            loss += _GROWTH_WEIGHT * ratio**2
            gradient[first] -= 2 * _GROWTH_WEIGHT * ratio**2 / network_seconds
            gradient[first + 1] += 2 * _GROWTH_WEIGHT * ratio / network_seconds
        return float(loss), gradient


def _root_mean_square(errors: Array) -> tuple[float, Array]:
    """Return it, and its gradient by the errors (n,); that of no error at all is 0."""
    value = float(np.sqrt(errors @ errors / len(errors)))
    return value, errors / (len(errors) * value) if value > 0 else np.zeros_like(errors)
