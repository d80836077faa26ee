"""Image classification, larger: scikit-learn's digits in front of its photographs."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_sample_images
from torch import nn

from benchmarks.training.workloads.task import Batch, Batched, Task, cross_entropy

SIDE = 24
MISLABELLED = 0.7
"""Share of the classes that are drawn anew, so that gradients are as noisy as the original's."""


def pictures(seed: int, learning_rate: float) -> Task:
    """A CNN of three convolutions with group normalisation, SGD with momentum.

    The generator puts digits at twice their size anywhere on 24 x 24 cut-outs of the two
    photographs, half as bright as those are, with noise of 0.2 of the full scale: 60,000 pictures
    of three quarters of the digits to train on, 2,000 of the rest held out.
    """
    train, held_out = _data()
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for before, after in ((1, 8), (8, 16), (16, 32)):
        conv = nn.Conv2d(before, after, 3, stride=2, padding=1)
        layers += [conv, nn.GroupNorm(4, after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 9, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    return Task(model, optimizer, train, held_out, cross_entropy)


@cache
def _data() -> tuple[Batched, Batch]:
    digits, classes = load_digits(return_X_y=True)
    digits = np.kron(digits.reshape(-1, 8, 8) / 16, np.ones((1, 2, 2)))
    photographs = np.stack([photo.mean(2) for photo in load_sample_images().images]) / 255
    random = np.random.default_rng(20244)
    order = random.permutation(len(digits))
    cut = 3 * len(order) // 4

    def generate(of: NDArray[np.int64], count: int) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = random.choice(of, size=count)
        photo = random.integers(len(photographs), size=count)
        corners = (random.integers(photographs.shape[axis] - SIDE, size=count) for axis in (1, 2))
        down, right = (c[:, None, None] for c in corners)
        at = np.arange(SIDE)
        cut_out = photographs[photo[:, None, None], down + at[:, None], right + at]
        top, left = random.integers(SIDE - 15, size=(2, count))
        rows, columns = top[:, None] + np.arange(16), left[:, None] + np.arange(16)
        cut_out[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]] += (
            0.5 * digits[chosen]
        )
        noisy = cut_out + 0.2 * random.standard_normal(cut_out.shape)
        anew = random.random(count) < MISLABELLED
        labels = np.where(anew, random.integers(10, size=count), classes[chosen])
        return torch.tensor(noisy[:, None], dtype=torch.float32), torch.tensor(labels)

    return Batched(*generate(order[:cut], 60_000)), generate(order[cut:], 2_000)
