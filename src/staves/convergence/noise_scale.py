"""The gradient noise scale, from the gradients of unequal groups of samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
        ValueError: fewer than two groups, a batch that is no whole number above zero, a negative
            norm, unlike shapes, what is no number, is not finite, or is too large to reckon with.
    """
    b = _numbers("local_batches", local_batches)
    squares = _numbers("local_square_norms", local_square_norms)
    whole = _numbers("global_square_norm", global_square_norm)
    if b.ndim != 1 or b.shape != squares.shape:
        raise InputError(
            f"local_batches has shape {b.shape}, local_square_norms {squares.shape}",
            hint="both must be (groups,)",
        )
    if whole.ndim != 0:
        raise InputError(
            f"global_square_norm has shape {whole.shape}", hint="it must be a single number"
        )
    if len(b) < 2:
        raise InputError(
            f"the noise scale needs two groups at least, not {len(b)}",
            hint="count each micro-batch as a group",
        )
    if not np.all(np.isfinite(b)) or not np.all(np.isfinite(squares)) or not np.isfinite(whole):
        raise InputError("a batch or a norm is not finite", hint="skip this step, on all ranks")
    if np.any(b <= 0):
        raise InputError("a group holds no sample", hint="leave it out")
    if np.any(b != np.floor(b)):
        raise InputError(
            "local_batches holds a part of a sample", hint="count whole samples, or whole tokens"
        )
    if np.any(squares < 0) or whole < 0:
        raise InputError("a squared norm is negative", hint="give |g|^2, not g")
    with np.errstate(over="ignore", invalid="ignore"):
        weighted, batch = float((b * squares).sum()), float(b.sum())
    return from_sums(weighted, len(b), batch, float(whole))


def from_sums(
    weighted_square: float, groups: int, batch: float, global_square_norm: float
) -> NoiseScale:
    """Estimate the noise scale of one step from the two sums that `estimate` needs.

    Sums over groups are all that ranks have to exchange.

    Args:
        weighted_square: sum of b_i |g_i|^2.
        groups: how many groups with samples there are.
        batch: sum of b_i. The b_i may be other weights, such as tokens; then the noise is that of
            one token, and the scale counts tokens.
        global_square_norm: |g|^2.

    Raises:
        ValueError: fewer than two groups, a batch that is not positive, a negative sum, or what is
            not finite or too large to reckon with.
    """
    if groups < 2:
        raise InputError(
            f"the noise scale needs two groups at least, not {groups}",
            hint="count each micro-batch as a group",
        )
    if not batch > 0 or weighted_square < 0 or global_square_norm < 0:
        raise InputError("the batch is not positive, or a squared norm is negative")
    noise = (weighted_square - batch * global_square_norm) / (groups - 1)
    gradient_square = global_square_norm - noise / batch
    if not (math.isfinite(noise) and math.isfinite(gradient_square)):
        raise InputError(
            "the batches or the norms are too large: their products overflow",
            hint="skip this step, on all ranks",
        )
    return NoiseScale(gradient_square, noise)


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return `values` as floats; refuse what is no real number, however it is wrapped."""
    try:
        array = np.asarray(values)
        # A list of mixed things may have become text, or truth values numbers: neither is meant.
        if array.size and array.dtype.kind not in "iuf":
            raise TypeError
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{name} holds what is no number", hint="give whole numbers and floats"
        ) from None
