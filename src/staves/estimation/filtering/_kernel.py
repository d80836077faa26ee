"""The ANOVA kernel: how alike a job's deviations are on two cells, part by part.

ln(throughput) of a job deviates from the mean of jobs by a sum of independent parts: the job's
level, and its reactions to the type, to the number of devices, to both at once, and to links
between nodes. Each part is a fixed similarity of cells times a variance, which the history tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.estimation.filtering._cells import CellSpace

Array = NDArray[np.float64]

_DEVICES_SCALE, _NODES_SCALE = 1.5, 1.5
"""Doublings over which the reaction to more devices, and to more nodes, stays alike."""

_LEAST_VARIANCE = 1e-7
_NEARLY_ZERO = 1e-6  # keeps the ratio of two vanishing sums near 1

JITTER = 1e-5
"""Variance of what is independent at every cell in any case: matrices stay regular."""


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """What is left of one job's measurements, to be explained by the kernel.

    Args:
        cells: where, (K,).
        values: how much, (K,).
        beside: covariance that it has beside the kernel's, (K, K); None for none.
    """

    cells: NDArray[np.int64]
    values: Array
    beside: Array | None = None


def parts(space: CellSpace) -> dict[str, Array]:
    """Return the similarities of cells by the name of their part, each (C, C)."""
    doublings, spread = np.log2(space.devices), np.log2(space.nodes)
    same_type = (space.type_index[:, None] == space.type_index).astype(np.float64)
    several, across = (
        np.outer(mask, mask).astype(np.float64) for mask in (space.devices > 1, space.nodes > 1)
    )
    near = np.exp(-0.5 * ((doublings[:, None] - doublings) / _DEVICES_SCALE) ** 2)
    near_nodes = np.exp(-0.5 * ((spread[:, None] - spread) / _NODES_SCALE) ** 2)
    line = np.outer(doublings, doublings)
    return {
        "job": np.ones_like(same_type),
        "type": same_type,
        "devices": several * near,
        "devices-line": line,
        "type-devices": same_type * several * near,
        "type-devices-line": same_type * line,
        "nodes": across * near_nodes,
        "nodes-devices": across * near,
        "type-nodes": same_type * across * near_nodes,
        "type-nodes-devices": same_type * across * near,
        "cell": np.eye(len(space)),
    }


def combined(similarities: Mapping[str, Array], variances: Mapping[str, float]) -> Array:
    """Return the sum of the parts that have a variance, (C, C)."""
    size = len(next(iter(similarities.values())))
    total = JITTER * np.eye(size)
    for name, variance in variances.items():
        total += variance * similarities[name]
    return total


def fit_variances(
    similarities: Mapping[str, Array],
    residuals: Sequence[Residual],
    start: Mapping[str, float],
    rounds: int,
) -> dict[str, float]:
    """Return the variances of greatest likelihood for independent jobs, from `start` on.

    Each round multiplies every variance by the square root of what it explains over what it is
    expected to: the likelihood never falls (Zhou et al., "MM algorithms for variance components
    models", 2015, section 3).

    Args:
        similarities: of the parts that `start` names, at least.
        residuals: one for each job.
        start: variances above zero.
        rounds: how many.
    """
    names = list(start)
    stacked = np.stack([similarities[name] for name in names])
    variances = np.array([start[name] for name in names], dtype=np.float64)
    blocks = [stacked[:, one.cells[:, None], one.cells] for one in residuals]
    flat = [block.reshape(len(names), -1) for block in blocks]
    for _ in range(rounds):
        found, expected = np.zeros(len(names)), np.zeros(len(names))
        for one, block, rows in zip(residuals, blocks, flat, strict=True):
            size = len(one.cells)
            covariance = (variances @ rows).reshape(size, size) + JITTER * np.eye(size)
            if one.beside is not None:
                covariance += one.beside
            inverse = np.linalg.inv(covariance)
            weights = inverse @ one.values
            found += (block @ weights) @ weights
            expected += rows @ inverse.ravel()
        ratio = (found + _NEARLY_ZERO) / (expected + _NEARLY_ZERO)
        variances = np.maximum(variances * np.sqrt(ratio), _LEAST_VARIANCE)
    return dict(zip(names, variances.tolist(), strict=True))
