"""What is trained: model, data and held-out data of each workload, from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
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


def images(seed: int, learning_rate: float) -> Task:
    """Digits, moved about and noisy: a small CNN with group normalisation, SGD with momentum.

    The generator makes 60,000 training images out of three quarters of scikit-learn's digits, and
    4,000 held-out ones out of the rest: each moved by up to a pixel either way, scaled by 0.7 to
    1.3, and with noise of 0.35 of the full scale. The data are the same for all seeds; the seed is
    that of the weights and of the order.
    """
    pictures, classes = load_digits(return_X_y=True)
    random = np.random.default_rng(20240)
    order = random.permutation(len(pictures))
    cut = 3 * len(order) // 4
    train = _generate(pictures[order[:cut]], classes[order[:cut]], 60_000, random)
    held_out = _generate(pictures[order[cut:]], classes[order[cut:]], 4_000, random)
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv2d(16, 24, 3),
        nn.GroupNorm(4, 24),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    return Task(model, optimizer, Batched(*train), held_out, _cross_entropy)


def _generate(
    pictures: NDArray[Any], classes: NDArray[Any], count: int, random: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    chosen = random.integers(len(pictures), size=count)
    around = np.pad(pictures[chosen].reshape(-1, 8, 8) / 16, ((0, 0), (1, 1), (1, 1)))
    down, right = random.integers(3, size=(2, count))
    rows = down[:, None, None] + np.arange(8)[None, :, None]
    columns = right[:, None, None] + np.arange(8)[None, None, :]
    moved = around[np.arange(count)[:, None, None], rows, columns]
    scaled = moved * random.uniform(0.7, 1.3, (count, 1, 1))
    noisy = scaled + 0.35 * random.standard_normal(scaled.shape)
    return torch.tensor(noisy[:, None], dtype=torch.float32), torch.tensor(classes[chosen])


def _cross_entropy(model: nn.Module, batch: Batch) -> torch.Tensor:
    inputs, classes = batch
    return functional.cross_entropy(model(inputs), classes)
