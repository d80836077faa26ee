"""BatchNorm's running statistics, averaged over the ranks where all of them pass.

Each rank normalises its own samples, and its layers follow the mean and variance of those alone. At
boundaries that all ranks pass (the end of an epoch, a change of membership, and every few steps)
they are put together, weighted by the samples that each rank has trained since the last time: what
is evaluated and saved there depends on no rank's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from staves.training._exchange import Exchange
from staves.training._loader import Loader
from staves.training._state import TrainingState

EVERY = 100
"""Steps between two averages within an epoch; a checkpoint waits for the next one."""

Layer = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d


@dataclass(frozen=True, slots=True)
class Statistics:
    """One rank's running statistics, all layers one after the other.

    `samples` were trained since the last average, which was that of step `averaged`; the rank
    stands at `step`. `mean` and `variance` have shape (features,), `batches` (layers,).
    """

    step: int
    averaged: int
    samples: int
    mean: torch.Tensor
    variance: torch.Tensor
    batches: torch.Tensor


def combine(ranks: Sequence[Statistics]) -> Statistics | None:
    """Return the statistics of all ranks' samples together; None where none has trained any.

    With w_i rank i's share of the samples, mean = sum w_i m_i and variance = sum w_i (v_i + (m_i -
    mean)^2), the law of total variance. The mean is what one process would have followed, for the
    same split all along. In the variance the mean of variances alone would be enough for samples
    that are spread at random; the spread of the means is what counts where ranks see unlike samples
    (an order that is not shuffled). On random samples it adds under m / ((2 - m) b) of the variance
    at momentum m and local batch b: 0.4 % for 0.1 and 16.
    """
    newest = max(rank.step for rank in ranks)
    for rank in ranks:
        if rank.step == newest == rank.averaged and newest > 0:
            return rank  # the others were lost in the middle of this average
    counted = [rank for rank in ranks if rank.samples > 0]
    total = sum(rank.samples for rank in counted)
    if total == 0:
        return None
    shares = [rank.samples / total for rank in counted]
    parts = list(zip(shares, counted, strict=True))
    mean = sum((w * r.mean for w, r in parts), torch.zeros_like(ranks[0].mean))
    variance = sum(
        (w * (r.variance + (r.mean - mean).square()) for w, r in parts), torch.zeros_like(mean)
    )
    batches = torch.stack([rank.batches for rank in counted]).amax(0)
    return Statistics(newest, newest, 0, mean, variance, batches)


class RunningStatistics:
    """This rank's side of it.

    Where no layer of the model keeps running statistics of a rank's own samples, all of it does
    nothing; SyncBatchNorm's are the same on all ranks.
    """

    def __init__(self, state: TrainingState) -> None:
        self._state = state
        self._samples = self._averaged = 0

    def trained(self, samples: int) -> None:
        """So many samples of this rank belong to a committed step."""
        self._samples += samples

    def due(self, step: int, loader: Loader | None) -> bool:
        """Whether the ranks average before this step: alike on all of them."""
        if self._averaged == step:
            return False
        may = step % EVERY == 0 or (loader is not None and not loader.unfinished())
        return may and bool(self._layers())  # which takes long in a large model

    def may_save(self, step: int, world_size: int) -> bool:
        """Whether a checkpoint of this step depends on no rank's number."""
        return world_size == 1 or self._averaged == step or not self._layers()

    def average(self, exchange: Exchange | None, step: int) -> None:
        """Take over the statistics of all ranks together; all ranks of the generation call this.

        Raises:
            Interrupted: the generation broke meanwhile; the next one does it again.
        """
        layers = self._layers()
        if exchange is not None and layers:
            whole = exchange.agree(self._own(layers, step), combine)
            if whole is not None:
                _load(layers, whole)
        self._samples, self._averaged = 0, step

    def received(self, step: int) -> None:
        """This rank's state is that of `step` now, which the average came before."""
        self._averaged = step

    def _layers(self) -> list[Layer]:
        model = self._state.model
        if model is None:
            return []
        return [
            module
            for module in model.modules()
            if isinstance(module, Layer) and module.running_mean is not None
        ]

    def _own(self, layers: list[Layer], step: int) -> Statistics:
        def joined(name: str) -> torch.Tensor:
            parts = [getattr(layer, name).detach().reshape(-1).double().cpu() for layer in layers]
            return torch.cat(parts)

        mean, variance, batches = map(joined, _BUFFERS)
        return Statistics(step, self._averaged, self._samples, mean, variance, batches)


_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


def _load(layers: list[Layer], whole: Statistics) -> None:
    sizes = [layer.num_features for layer in layers]
    parts = zip(
        layers,
        torch.split(whole.mean, sizes),
        torch.split(whole.variance, sizes),
        whole.batches.unbind(),
        strict=True,
    )
    for layer, *values in parts:
        for name, value in zip(_BUFFERS, values, strict=True):
            getattr(layer, name).copy_(value)
