"""Image classification, small: scikit-learn's digits, moved about and noisy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import nn

from benchmarks.training.workloads.task import Batch, Batched, Task, cross_entropy

NOISE = 0.35
"""Of the pixels, in parts of the full scale."""
MISLABELLED = 0.8
"""Share of the classes that are drawn anew, so that gradients are as noisy as the original's."""


def images(seed: int, learning_rate: float) -> Task:
    """A small CNN with group normalisation, SGD with momentum.

    The generator makes 120,000 training images out of three quarters of the digits, and 2,000
    held-out ones out of the rest: each moved by up to a pixel either way, scaled by 0.7 to 1.3,
    and with noise on every pixel.
    """
    train, held_out = _data()
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
    return Task(model, optimizer, train, held_out, cross_entropy)


@cache
def _data() -> tuple[Batched, Batch]:
    pictures, classes = load_digits(return_X_y=True)
    random = np.random.default_rng(20240)
    order = random.permutation(len(pictures))
    cut = 3 * len(order) // 4
    train = _generate(pictures[order[:cut]], classes[order[:cut]], 120_000, random)
    held_out = _generate(pictures[order[cut:]], classes[order[cut:]], 2_000, random)
    return Batched(*train), held_out


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
    noisy = scaled + NOISE * random.standard_normal(scaled.shape)
    labels = np.where(
        random.random(count) < MISLABELLED, random.integers(10, size=count), classes[chosen]
    )
    return torch.tensor(noisy[:, None], dtype=torch.float32), torch.tensor(labels)
