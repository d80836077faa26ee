"""A language model of characters: a small transformer that learns to write like Python's manual.

The text is what `help()` shows, from the Python that runs this (`pydoc_data.topics`).

    staves run examples/charlm.py --devices examples/demo/cluster.yaml
"""

from __future__ import annotations

import argparse
import math
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import staves

LENGTH = 32  # characters that the model sees at once
ALPHABET = 128  # ASCII


def data(windows: int) -> tuple[TensorDataset, torch.Tensor]:
    """Return windows of the text to train on, and 256 others for the test.

    A window is LENGTH + 1 characters; they lie end to end, all over the text.
    """
    text = "\n".join(topics[name] for name in sorted(topics))
    codes = torch.tensor(list(text.encode("ascii", "replace")))
    cut = codes.unfold(0, LENGTH + 1, LENGTH)
    order = torch.randperm(len(cut), generator=torch.Generator().manual_seed(0))
    return TensorDataset(cut[order[256 : 256 + windows]]), cut[order[:256]]


class Transformer(nn.Module):
    """One causal block over embedded characters; (batch, length) to (batch, length, ALPHABET)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.characters = nn.Embedding(ALPHABET, width)
        self.places = nn.Parameter(torch.zeros(LENGTH, width))
        self.block = nn.TransformerEncoderLayer(
            width, 2, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.head = nn.Linear(width, ALPHABET)
        self.future: torch.Tensor
        self.register_buffer("future", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        hidden = self.characters(text) + self.places
        logits: torch.Tensor = self.head(self.block(hidden, src_mask=self.future, is_causal=True))
        return logits


def nats(model: nn.Module, windows: torch.Tensor) -> torch.Tensor:
    """Return the mean negative log-likelihood of each window's next characters."""
    return cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--windows", type=int, default=3200)
    options = parser.parse_args()

    run = staves.init(batch_size=options.batch, seed=0)
    train, test = data(options.windows)
    test = test.to(run.device)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    batches = run.loader(train)
    steps = options.epochs * len(batches)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    model, optimizer, schedule = run.prepare(model, optimizer, schedule)
    for _ in run.epochs(options.epochs):
        for (windows,) in batches:
            run.backward(nats(model, windows))
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        with torch.no_grad():
            run.log(bits_per_character=float(nats(run.unwrap(model), test)) / math.log(2))


if __name__ == "__main__":
    main()
