"""The two tasks on which schedules are compared: digits by SGD, English text by AdamW."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pydoc_data.topics import topics

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from benchmarks.training.workloads import Batched, Task

CONTEXT = 16
CHARACTERS = 96  # those of ASCII that are printed, and one for all others


@dataclass(frozen=True)
class Scheduled:
    """What is trained, and for how long.

    Args:
        make: the task, from a seed and a learning rate.
        learning_rate: the best of a row of doublings at the reference batch, with the schedule.
        reference, most: batches, in samples.
        budget: reference steps.
    """

    name: str
    make: Callable[[int, float], Task]
    learning_rate: float
    reference: int
    most: int
    budget: int


def digits(seed: int, learning_rate: float) -> Task:
    """A perceptron on scikit-learn's digits, SGD with momentum.

    Three quarters of the pictures make 60,000 training ones, the rest 4,000 held-out ones: each
    scaled by 0.7 to 1.3, and with noise of 0.35 of the full scale on every pixel.
    """
    train, held_out = _digits()
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(64, 96), nn.LayerNorm(96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU()
    ).append(nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    return Task(model, optimizer, train, held_out, _cross_entropy)


def text(seed: int, learning_rate: float) -> Task:
    """The next character of English text from the 16 before it (Bengio et al., 2003), AdamW.

    The text is the language reference that comes with Python, some 600,000 characters; its last
    tenth is held out.
    """
    train, held_out = _text()
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Embedding(CHARACTERS, 12),
        nn.Flatten(),
        nn.Linear(12 * CONTEXT, 96),
        nn.LayerNorm(96),
        nn.GELU(),
        nn.Linear(96, CHARACTERS),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98))
    return Task(model, optimizer, train, held_out, _cross_entropy)


TASKS = (
    Scheduled("digits", digits, 0.05, 64, 4096, 1500),
    Scheduled("text", text, 16e-3, 64, 4096, 1500),
)


@cache
def _digits() -> tuple[Batched, Sequence[torch.Tensor]]:
    pictures, classes = load_digits(return_X_y=True)
    random = np.random.default_rng(20242)
    order = random.permutation(len(pictures))
    cut = 3 * len(order) // 4

    def drawn(of: np.ndarray, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = random.choice(of, count)
        scaled = pictures[chosen] / 16 * random.uniform(0.7, 1.3, (count, 1))
        noisy = scaled + 0.35 * random.standard_normal(scaled.shape)
        return torch.tensor(noisy, dtype=torch.float32), torch.tensor(classes[chosen])

    return Batched(*drawn(order[:cut], 60_000)), drawn(order[cut:], 4_000)


@cache
def _text() -> tuple[Batched, Sequence[torch.Tensor]]:
    joined = "".join(topics[name] for name in sorted(topics))
    codes = np.frombuffer(joined.encode("ascii", "replace"), dtype=np.uint8).astype(np.int64) - 32
    known = torch.from_numpy(
        np.where((codes >= 0) & (codes < CHARACTERS - 1), codes, CHARACTERS - 1)
    )
    windows = known.unfold(0, CONTEXT + 1, 1)
    cut = 9 * len(windows) // 10
    held_out = windows[cut + CONTEXT :][:: max(1, len(windows) // 10 // 4000)]
    train = windows[:cut].contiguous()
    return Batched(train[:, :-1], train[:, -1]), (held_out[:, :-1], held_out[:, -1])


def _cross_entropy(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
    inputs, classes = batch
    return functional.cross_entropy(model(inputs), classes)
