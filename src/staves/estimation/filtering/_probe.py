"""Which configuration to measure next, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError
from staves.estimation.filtering._cells import Cell, CellSpace
from staves.estimation.filtering._gaussian import Gaussian

REGRET_OF_ERROR = 0.45
"""Completion time that a mean relative error of throughputs costs, as a share for a share: measured
in simulation, where errors of 10, 20 and 30 % cost 4, 9 and 18 %."""

PROBE_COST = 0.01
"""Share of a job's remaining time that a probe takes: about half a minute of an hour."""

_LARGEST_DEVIATION = 1.0  # beyond e times too high or too low, decisions get no worse


@dataclass(frozen=True, slots=True)
class Probe:
    """The measurement that tells most.

    Args:
        cell: where.
        averted: expected decision regret that it averts, as a share of the job's remaining time.
        stop: whether that is less than it costs.
    """

    cell: Cell
    averted: float
    stop: bool


def choose_probe(
    believed: Gaussian,
    space: CellSpace,
    candidates: Sequence[Cell],
    noise: float,
    cost: float = PROBE_COST,
) -> Probe | None:
    """Return the candidate that leaves the least sum of variances over all candidates (A-optimal).

    Args:
        believed: of the job's ln(throughput), on all cells of the space.
        space: the cells.
        candidates: not yet measured; none gives None.
        noise: variance of a measurement's error.
        cost: of the probe, as a share of the job's remaining time.

    Raises:
        InputError: the space lacks a candidate, or the cost is negative or not finite.
    """
    if not (math.isfinite(cost) and cost >= 0):
        raise InputError(f"cost {cost!r} must be finite and not negative", hint="like 0.01")
    if not candidates:
        return None
    index = space.index(candidates)
    covariance = believed.covariance[np.ix_(index, index)]
    variance = np.maximum(np.diag(covariance), 0.0)
    removed = np.square(covariance) / (variance + noise)[:, None]  # row: probe, column: cell
    best = int(removed.sum(axis=1).argmax())
    after = np.maximum(variance - removed[best], 0.0)
    averted = _regret(variance) - _regret(after)
    return Probe(candidates[best], averted, averted < cost)


def _regret(variance: NDArray[np.float64]) -> float:
    """Return the expected decision regret: of E|error| = sqrt(2 / pi) x deviation of a normal."""
    deviation = np.minimum(np.sqrt(variance), _LARGEST_DEVIATION)
    return REGRET_OF_ERROR * math.sqrt(2 / math.pi) * float(deviation.mean())
