"""Small random tables to learn from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from staves.estimation.filtering import Cell, CellSpace, History, Measured

Array = NDArray[np.float64]

TYPES = ("k80", "v100", "a100")
CELLS = tuple(
    Cell(name, devices, nodes)
    for name in TYPES
    for devices, nodes in ((1, 1), (2, 1), (2, 2), (4, 1), (4, 4), (8, 1), (8, 8))
)


def covariance(rng: np.random.Generator, size: int) -> Array:
    """Return a random covariance of full rank, (size, size)."""
    root = rng.normal(size=(size, size + 2))
    found: Array = root @ root.T / size
    return found


def observed(values: Array, cells: tuple[Cell, ...], mask: NDArray[np.bool_]) -> History:
    """Return the history of jobs whose ln(throughput) are `values` (J, C), where `mask` says."""
    return History(
        {
            f"job-{j}": {
                cell: Measured(float(values[j, c])) for c, cell in enumerate(cells) if mask[j, c]
            }
            for j in range(len(values))
        }
    )


def space() -> CellSpace:
    return CellSpace(CELLS)
