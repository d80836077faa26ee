"""A causal language model: a small transformer on sentences of a random grammar."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.training.workloads.task import Batch, Batched, Task

WORDS, LENGTH, WIDTH, HEADS = 48, 8, 32, 2
RANK = 6
"""Of the tables that say how a word depends on each of the two before it."""


def language(seed: int, learning_rate: float) -> Task:
    """One block of causal attention with layer normalisation, AdamW (0.9, 0.98).

    The generator draws each next word from a distribution over 48 words whose logits are the sum of
    two random tables of rank 6, one for each of the two words before it: 200,000 sentences of 9
    words to train on, 2,000 held out. The last words cost about as many nats as there is noise: the
    grammar's own entropy.
    """
    train, held_out = _data()
    torch.manual_seed(seed)
    model = _Transformer()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    return Task(model, optimizer, train, held_out, _next_word)


class _Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        self.before = nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.joined = nn.Linear(WIDTH, WIDTH)
        self.between = nn.LayerNorm(WIDTH)
        self.wide = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.after = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.places
        parts = self.attention(self.before(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).flatten(-2))
        x = x + self.wide(self.between(x))
        logits: torch.Tensor = self.out(self.after(x))
        return logits


def _next_word(model: nn.Module, batch: Batch) -> torch.Tensor:
    (words,) = batch
    logits = model(words[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())


@cache
def _data() -> tuple[Batched, Batch]:
    random = np.random.default_rng(20241)
    first, second = (
        random.standard_normal((WORDS, RANK)) @ random.standard_normal((RANK, WORDS)) / RANK**0.5
        for _ in range(2)
    )
    weights = np.exp(first[:, None] + second[None])
    upto = (weights / weights.sum(-1, keepdims=True)).cumsum(-1)

    def sentences(count: int) -> torch.Tensor:
        words = random.integers(WORDS, size=(count, LENGTH + 1))
        for place in range(2, LENGTH + 1):
            chances = upto[words[:, place - 1], words[:, place - 2]]
            below = (chances < random.random((count, 1))).sum(1)
            words[:, place] = np.minimum(below, WORDS - 1)
        return torch.tensor(words)

    return Batched(sentences(200_000)), (sentences(2_000),)
