"""A joint normal distribution, and what is left of it once some of its parts are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What one job was seen at: ln(throughput), `values` (K,), of the cells `cells` (K,)."""

    cells: Index
    values: Array


@dataclass(frozen=True, slots=True, eq=False)
class Gaussian:
    """N(mean, covariance), of shapes (C,) and (C, C)."""

    mean: Array
    covariance: Array

    @property
    def variance(self) -> Array:
        """Of each part alone, (C,)."""
        variance: Array = np.diag(self.covariance).copy()
        return variance

    def given(self, observed: Index, values: Array, noise: float) -> Gaussian:
        """Return the distribution once `values` were seen at `observed`, with independent errors.

        Args:
            observed: which parts, (K,).
            values: what was seen of each, (K,).
            noise: variance of each one's error; above zero.
        """
        if not len(observed):
            return self
        across = self.covariance[observed]
        gain = np.linalg.solve(across[:, observed] + noise * np.eye(len(observed)), across)
        return Gaussian(
            self.mean + gain.T @ (values - self.mean[observed]),
            self.covariance - gain.T @ across,
        )
