"""Learning-rate rules: the factor on the learning rate that a larger batch asks for.

Each is a function of (gain, ratio): the gain is the progress of a step in steps of the reference
batch (`staves.convergence.gain`, from 1 to the ratio), the ratio is batch / reference. All are 1 at
the reference batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from staves.errors import InputError

Rule = Callable[[float, float], float]


def adascale(gain: float, ratio: float) -> float:
    """Return the gain: for SGD (Johnson et al., "AdaScale SGD", ICML 2020, algorithm 1)."""
    _check(gain, ratio)
    return gain


def square_root(gain: float, ratio: float) -> float:
    """Return sqrt(ratio): for Adam-like optimizers (Malladi et al., "On the SDEs and Scaling Rules
    for Adaptive Gradient Algorithms", NeurIPS 2022; Krizhevsky, 2014)."""
    _check(gain, ratio)
    return math.sqrt(ratio)


def linear(gain: float, ratio: float) -> float:
    """Return the ratio (Goyal et al., "Accurate, Large Minibatch SGD", 2017): holds only while the
    batch is small beside the noise scale."""
    _check(gain, ratio)
    return ratio


def constant(gain: float, ratio: float) -> float:
    """Return 1: the learning rate stays."""
    _check(gain, ratio)
    return 1.0


def legw(ratio: float, *, epochs: float, warm_up_epochs: float) -> float:
    """Return the factor of LEGW, linear-epoch gradual warm-up with the square root.

    You et al., "Large-Batch Training for LSTM and Beyond" (SC '19): the learning rate grows with
    the square root of the batch, and the warm-up, counted in epochs, with the batch itself.

    Args:
        ratio: batch / reference.
        epochs: passes over the data so far.
        warm_up_epochs: of the reference batch; 0 for none.
    """
    _check(1.0, ratio)
    if not (epochs >= 0 and warm_up_epochs >= 0):
        raise InputError("legw: epochs and warm_up_epochs must not be negative")
    length = warm_up_epochs * ratio
    return math.sqrt(ratio) * (1.0 if epochs >= length else epochs / length)


RULES: Mapping[str, Rule] = MappingProxyType(
    {"adascale": adascale, "square-root": square_root, "linear": linear, "none": constant}
)
"""The rules by the names under which `staves.Adaptive` takes them."""


def _check(gain: float, ratio: float) -> None:
    for name, value in (("gain", gain), ("ratio", ratio)):
        if not (value > 0 and math.isfinite(value)):
            raise InputError(f"{name} must be positive and finite, but is {value}")
