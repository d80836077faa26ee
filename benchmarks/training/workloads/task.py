"""What a workload is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

Batch = Sequence[torch.Tensor]


class Batched(TensorDataset):
    """Tensors that are taken by a list of indices at once, and need no collating."""

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, ...]:
        return tuple(tensor[indices] for tensor in self.tensors)


def as_they_are(batch: Any) -> Any:
    return batch


@dataclass(frozen=True)
class Task:
    """A workload made from a seed."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    data: Batched
    held_out: Batch
    loss: Callable[[nn.Module, Any], torch.Tensor]


def cross_entropy(model: nn.Module, batch: Batch) -> torch.Tensor:
    inputs, classes = batch
    return functional.cross_entropy(model(inputs), classes)
