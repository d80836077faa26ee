"""What Sia believes of a job: goodput by its fits, projected to types on which it never ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.estimation._sia_fit import ThroughputFit

Array = NDArray[np.float64]

_TRIED = np.linspace(0, 1, 50)[:, None]  # in the logarithm; 50 batches, as AdaptDL tries
_ROUNDING = 1e-8


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Between which batches a job may choose on one device type, in samples.

    Args:
        reference: total batch at which a sample's efficiency is 1.
        smallest, largest: total batch; the same for a fixed one.
        local_least, local_most: of one device and pass.
    """

    reference: float
    smallest: float
    largest: float
    local_least: float
    local_most: float


@dataclass(frozen=True, slots=True)
class GradientStatistics:
    """What the last batch told of the gradients.

    Args:
        square: |mean gradient|^2.
        noise: variance of the mean gradient over a reference batch.
    """

    square: float
    noise: float

    def gain(self, scale: Array) -> Array:
        """Return reference steps that a step of `scale` reference batches is worth (AdaScale)."""
        below = self.noise / scale + self.square
        with np.errstate(divide="ignore", invalid="ignore"):
            gain: Array = np.where(below > 0, (self.noise + self.square) / below, 1.0)
        return gain


@dataclass(frozen=True, slots=True, eq=False)
class BatchChoice:
    """The best batch of some configurations, all of shape (C,).

    Args:
        local: samples of a device and pass; whole.
        accumulation: passes before the last of a step; whole.
        goodput: reference samples a second; 0 where no batch is allowed.
    """

    local: Array
    accumulation: Array
    goodput: Array


def choose_batch(
    fit: ThroughputFit,
    gradients: GradientStatistics,
    limits: BatchLimits,
    nodes: NDArray[np.int64],
    devices: NDArray[np.int64],
) -> BatchChoice:
    """Return the best of 50 batches for each configuration, by goodput (Pollux, OSDI '21).

    They lie at equal ratios from the smallest batch, or the least that the devices can hold, to
    the largest. A device that would hold too much accumulates; one device alone does so once beyond
    the reference batch, as two gradients are needed for statistics.

    Args:
        fit: of the type.
        gradients: as last seen.
        limits: on that type.
        nodes, devices: how many of each, (C,).
    """
    lowest = np.maximum(limits.smallest, limits.local_least * devices)
    total = lowest * (limits.largest / lowest) ** _TRIED
    local = total / devices
    accumulation = np.ceil(local / limits.local_most - _ROUNDING) - 1
    alone = (devices == 1) & (local > limits.reference + _ROUNDING)
    accumulation = np.where(alone, np.maximum(accumulation, 1), accumulation)
    local = np.ceil(local / (accumulation + 1) - _ROUNDING)
    scale = devices * local * (accumulation + 1) / limits.reference
    seconds = fit.step_seconds(nodes, devices, local, accumulation)
    allowed = (local >= limits.local_least) & (local <= limits.local_most)
    goodput = np.where(allowed, limits.reference * gradients.gain(scale) / seconds, 0.0)
    best = goodput.argmax(axis=0), np.arange(len(devices))
    return BatchChoice(local[best], accumulation[best], goodput[best])


class SiaRates:
    """Believed goodput of configurations, in reference samples a second.

    A type with a fit goes by its own. Another goes by that of the first type that has one, times
    the ratio of their one-device throughputs; how many nodes the devices would fill is then counted
    in that type's nodes. Before there is any fit, everything is worth 1.

    Args:
        fits: by type, as indices, in the order in which the types were tried.
        gradients: None before a first step.
        limits: by type; types that are absent do not run the job.
        node_sizes: devices of a node, (G,).
        alone: samples a second of one device of each type, (G,).
    """

    def __init__(
        self,
        fits: Mapping[int, ThroughputFit],
        gradients: GradientStatistics | None,
        limits: Mapping[int, BatchLimits],
        node_sizes: Sequence[int],
        alone: Sequence[float],
    ) -> None:
        self._fits, self._gradients, self._limits = fits, gradients, limits
        self._node_sizes, self._alone = node_sizes, alone
        self._known: dict[int, dict[int, float]] = {}

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return goodputs (C,) of configurations (C, G); 0 for mixed ones."""
        rates = np.zeros(len(configurations))
        pure = (configurations > 0).sum(axis=1) == 1
        for g in self._limits:
            rows = pure & (configurations[:, g] > 0)
            if rows.any():
                rates[rows] = self._of_type(g, configurations[rows, g])
        return rates

    def _of_type(self, g: int, devices: NDArray[np.int64]) -> Array:
        if self._gradients is None or not self._fits:
            return np.ones(len(devices))
        model = g if g in self._fits else next(iter(self._fits))
        known = self._known.setdefault(model, {})
        asked = devices.tolist()
        new = sorted({n for n in asked if n not in known})
        if new:
            counts = np.array(new, dtype=np.int64)
            nodes = -(-counts // self._node_sizes[model])
            choice = choose_batch(
                self._fits[model], self._gradients, self._limits[model], nodes, counts
            )
            known.update(zip(new, choice.goodput.tolist(), strict=True))
        ratio = 1.0 if model == g else self._alone[g] / self._alone[model]
        return ratio * np.array([known[n] for n in asked])
