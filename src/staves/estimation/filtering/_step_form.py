"""The physical form of a job's throughput: computing and communicating, overlapped.

T = (Tc^p + Ts^p)^(1/p) seconds a step, X = n / T: each device has a batch of its own. The p-norm is
that of Pollux (OSDI '21, section 3.2). Both times are products of the job's own factors, so their
logarithms are linear in the parameters:

    ln Tc = level + pace[type] + slowing ln n
    ln Ts = level + burden + link[type] + across + across[type] + growth ln(n / 2)
            + growth over nodes ln(m / 2) + ln(2 (n - 1) / n)

the terms `across` and that over nodes only where links between m > 1 nodes are used; the last term
is the share of the gradients that a ring all-reduce sends. One device sends nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from staves.estimation.filtering._cells import CellSpace
from staves.estimation.filtering._gaussian import Gaussian

Array = NDArray[np.float64]

_OVERLAP = 2.0  # the p of the norm: 1 none, 10 next to full
_NOTHING_SENT = -60.0  # ln of a share that no sum shows

_DEVIATIONS = {
    "level": 3.0,
    "pace": 0.5,
    "slowing": 0.15,
    "burden": 1.5,
    "link": 0.5,
    "across": 0.7,
    "across-type": 0.4,
    "growth": 0.4,
    "growth-nodes": 0.4,
}
"""Standard deviations over jobs, before any job has run."""

_BURDEN, _ACROSS = -1.0, 1.0
"""What is expected then: communicating takes 0.37 of computing, and e times that between nodes."""


class StepForm:
    """The form on the cells of a space; P parameters, of which the first is the level.

    Args:
        space: the cells, (C).
    """

    def __init__(self, space: CellSpace) -> None:
        kinds = np.eye(len(space.types))[space.type_index]
        one = np.ones((len(space), 1))
        devices, nodes = space.devices[:, None], space.nodes[:, None]
        across = (nodes > 1).astype(np.float64)
        absent, per_type = np.zeros_like(one), np.zeros_like(kinds)
        columns = {  # of ln Tc, and of ln Ts
            "level": (one, one),
            "pace": (kinds, per_type),
            "slowing": (np.log(devices), absent),
            "burden": (absent, one),
            "link": (per_type, kinds),
            "across": (absent, across),
            "across-type": (per_type, across * kinds),
            "growth": (absent, np.log(np.maximum(devices, 2) / 2)),
            "growth-nodes": (absent, across * np.log(np.maximum(nodes, 2) / 2)),
        }
        self._compute, self._send = (
            np.hstack([pair[side] for pair in columns.values()]) for side in (0, 1)
        )
        shared = 2 * (space.devices - 1) / space.devices
        self._ring: Array = np.where(
            space.devices > 1, np.log(np.maximum(shared, 1e-9)), _NOTHING_SENT
        )
        self._log_devices = np.log(space.devices)
        widths = {name: pair[0].shape[1] for name, pair in columns.items()}
        means = {name: np.zeros(width) for name, width in widths.items()}
        means["pace"] = -space.log_peak
        means["link"] = space.log_peak.mean() - space.log_peak  # faster hosts have faster links
        means["burden"] += _BURDEN
        means["across"] += _ACROSS
        deviations = [np.full(width, _DEVIATIONS[name]) for name, width in widths.items()]
        self.prior = Gaussian(
            np.concatenate(list(means.values())), np.diag(np.concatenate(deviations) ** 2)
        )

    def log_throughput(
        self, parameters: Array, cells: NDArray[np.int64] | slice = slice(None)
    ) -> tuple[Array, Array]:
        """Return ln X, (K,), of some cells, and its derivatives, (K, P)."""
        compute, send = self._compute[cells], self._send[cells]
        log_compute = compute @ parameters
        log_send = send @ parameters + self._ring[cells]
        longer = np.maximum(log_compute, log_send)
        weight_compute = np.exp(_OVERLAP * (log_compute - longer))
        weight_send = np.exp(_OVERLAP * (log_send - longer))
        both = weight_compute + weight_send
        log_step = longer + np.log(both) / _OVERLAP
        share = (weight_send / both)[:, None]
        return self._log_devices[cells] - log_step, -((1 - share) * compute + share * send)
