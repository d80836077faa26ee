"""Speech recognition: convolutions over frames, trained by CTC on noisy spoken symbols."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from benchmarks.training.workloads.task import Batch, Batched, Task

SYMBOLS, FEATURES, FRAMES = 12, 16, 15
SHORTEST, LONGEST = 1, 3
"""Symbols of an utterance."""
NOISE = 2.5
"""Of the frames; each feature of a symbol's own has variance 1."""
WIDTH = 32


def speech(seed: int, learning_rate: float) -> Task:
    """Two convolutions over time with layer normalisation in each frame, CTC, AdamW (0.9, 0.98).

    The generator draws 1 to 3 of 12 symbols, none twice running, each of 3 to 5 frames; a frame is
    the symbol's vector of 16 features, from speaker to speaker 0.7 to 1.3 times as loud, with
    noise: 120,000 utterances to train on, 1,000 held out.
    """
    train, held_out = _data()
    torch.manual_seed(seed)
    model = _Recogniser()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    return Task(model, optimizer, train, held_out, _ctc)


class _Recogniser(nn.Module):
    """Frames of 16 features, shape (n, 15, 16), to log-probabilities, shape (8, n, 13)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(FEATURES, WIDTH, 5, padding=2)
        self.second = nn.Conv1d(WIDTH, WIDTH, 5, stride=2, padding=2)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.out = nn.Linear(WIDTH, SYMBOLS + 1)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        x = frames.transpose(1, 2)
        for layer, norm in zip((self.first, self.second), self.norms, strict=True):
            x = functional.relu(norm(layer(x).transpose(1, 2))).transpose(1, 2)
        return functional.log_softmax(self.out(x.permute(2, 0, 1)), -1)


def _ctc(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The mean over utterances of nats a symbol."""
    frames, lengths, symbols, counts = batch
    nats = functional.ctc_loss(model(frames), symbols, (lengths + 1) // 2, counts, reduction="none")
    return (nats / counts).mean()


@cache
def _data() -> tuple[Batched, Batch]:
    random = np.random.default_rng(20242)
    voices = random.standard_normal((SYMBOLS + 1, FEATURES))
    voices[0] = 0  # silence
    train, held_out = (_utterances(voices, count, random) for count in (120_000, 1_000))
    return Batched(*train), held_out


def _utterances(
    voices: NDArray[np.float64], count: int, random: np.random.Generator
) -> tuple[torch.Tensor, ...]:
    counts = random.integers(SHORTEST, LONGEST + 1, size=count)
    symbols = random.integers(1, SYMBOLS + 1, size=(count, LONGEST))
    for place in range(1, LONGEST):
        # A step of 1 to 11 around the circle of symbols never meets the one before.
        step = random.integers(1, SYMBOLS, size=count)
        symbols[:, place] = (symbols[:, place - 1] - 1 + step) % SYMBOLS + 1
    durations = random.integers(3, 6, size=(count, LONGEST))
    spoken = np.arange(LONGEST)[None] < counts[:, None]
    ends = (durations * spoken).cumsum(1)
    lengths = ends[:, -1]
    # The symbol of a frame is the first that has not ended; what follows the last is silence.
    place = (np.arange(FRAMES)[None, :, None] >= ends[:, None, :]).sum(2)
    symbols = symbols * spoken
    padded = np.concatenate([symbols, np.zeros((count, 1), symbols.dtype)], 1)
    of_frames = np.take_along_axis(padded, np.minimum(place, LONGEST), 1)
    frames = voices[of_frames] * random.uniform(0.7, 1.3, (count, 1, 1))
    frames = frames + NOISE * random.standard_normal(frames.shape)
    return (
        torch.tensor(frames, dtype=torch.float32),
        torch.tensor(lengths),
        torch.tensor(symbols),
        torch.tensor(counts),
    )
