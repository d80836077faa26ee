"""The gradient noise scale, from the gradients of unequal groups of samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from staves.errors import InputError


@dataclass(frozen=True)
class NoiseScale:
    """One step's unbiased estimates. Average the two parts over steps before taking their ratio.

    Attributes:
        gradient_square: |G|^2, the squared norm of the true gradient. An estimate, so it may be
            negative.
        noise: tr(Sigma), the trace of the covariance of one sample's gradient. May be negative.
    """

    gradient_square: float
    noise: float

    @property
    def scale(self) -> float:
        """noise / gradient_square, in samples; inf where the gradient drowns in the noise."""
        return self.noise / self.gradient_square if self.gradient_square > 0 else math.inf


def estimate(
    local_batches: ArrayLike, local_square_norms: ArrayLike, global_square_norm: float
) -> NoiseScale:
    """Estimate the noise scale of one step.

    With g_i the mean gradient of the b_i samples of group i (a rank, or a micro-batch of one), B
    their sum and g = sum of (b_i / B) g_i:

        tr(Sigma) = (sum of b_i |g_i|^2 - B |g|^2) / (groups - 1),  |G|^2 = |g|^2 - tr(Sigma) / B.

    This is the weighted sum of squares between groups. Each pair of a group and the whole gives an
    unbiased estimate (McCandlish et al., "An Empirical Model of Large-Batch Training", 2018,
    appendix A); their minimum-variance combination has the weights (B - b_i) / ((groups - 1) B),
    which add up to the above. With equal groups it is the estimator of Pollux (OSDI '21).

    Args:
        local_batches: samples b_i of each group, shape (groups,).
        local_square_norms: |g_i|^2, shape (groups,).
        global_square_norm: |g|^2.

    Raises:
        ValueError: fewer than two groups, a batch that is zero or negative, a negative norm, unlike
            shapes, or a non-finite number.
    """
    b = np.asarray(local_batches, dtype=np.float64)
    squares = np.asarray(local_square_norms, dtype=np.float64)
    if b.ndim != 1 or b.shape != squares.shape:
        raise InputError(
            f"local_batches has shape {b.shape}, local_square_norms {squares.shape}",
            hint="both must be (groups,)",
        )
    if len(b) < 2:
        raise InputError(
            f"the noise scale needs two groups at least, not {len(b)}",
            hint="count each micro-batch as a group",
        )
    if not (np.all(np.isfinite(b) & np.isfinite(squares)) and math.isfinite(global_square_norm)):
        raise InputError("a batch or a norm is not finite", hint="skip this step, on all ranks")
    if np.any(b <= 0):
        raise InputError("a group holds no sample", hint="leave it out")
    if np.any(squares < 0) or global_square_norm < 0:
        raise InputError("a squared norm is negative")
    total = float(b.sum())
    between = float((b * squares).sum()) - total * float(global_square_norm)
    noise = between / (len(b) - 1)
    return NoiseScale(float(global_square_norm) - noise / total, noise)
