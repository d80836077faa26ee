"""Recommendation: neural collaborative filtering (He et al., WWW 2017) of generated likings."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.training.workloads.task import Batch, Batched, Task

USERS, ITEMS, FACTORS = 800, 500, 4


def recommendation(seed: int, learning_rate: float) -> Task:
    """Matrix factorisation beside an MLP, as NeuMF has it; Adam.

    The generator gives 800 users and 500 items 4 factors each and items a popularity of 1 / rank:
    a pair is drawn by popularity, and liked with the probability sigmoid of their product, less 1.
    800,000 pairs to train on, 20,000 held out.
    """
    train, held_out = _data()
    torch.manual_seed(seed)
    model = _NeuMF()
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.98))
    return Task(model, optimizer, train, held_out, _likings)


class _NeuMF(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # Product and MLP have embeddings of 8 each, in one table.
        self.users, self.items = nn.Embedding(USERS, 16), nn.Embedding(ITEMS, 16)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.1)
        self.hidden = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.out = nn.Linear(16, 1)

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        user, item = self.users(users).split(8, -1), self.items(items).split(8, -1)
        hidden = self.hidden(torch.cat([user[1], item[1]], -1))
        logits: torch.Tensor = self.out(torch.cat([user[0] * item[0], hidden], -1))
        return logits.squeeze(-1)


def _likings(model: nn.Module, batch: Batch) -> torch.Tensor:
    users, items, liked = batch
    return functional.binary_cross_entropy_with_logits(model(users, items), liked)


@cache
def _data() -> tuple[Batched, Batch]:
    random = np.random.default_rng(20243)
    users = random.standard_normal((USERS, FACTORS))
    items = random.standard_normal((ITEMS, FACTORS))
    popularity = 1 / np.arange(1, ITEMS + 1)

    def pairs(count: int) -> tuple[torch.Tensor, ...]:
        user = random.integers(USERS, size=count)
        item = random.choice(ITEMS, size=count, p=popularity / popularity.sum())
        chance = 1 / (1 + np.exp(1 - (users[user] * items[item]).sum(1)))
        liked = torch.tensor(random.random(count) < chance, dtype=torch.float32)
        return torch.tensor(user), torch.tensor(item), liked

    return Batched(*pairs(800_000)), pairs(20_000)
