"""Worker: a model with BatchNorm whose ranks see unlike samples.

statistics.py FOLDER     writes FOLDER/rank-N.pt: the running statistics at each epoch's end
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import staves

BATCH, SPLIT, EPOCHS, MOMENTUM = 12, [8, 4], 3, 0.3


def data() -> torch.Tensor:
    """Return 66 samples, shape (66, 3), whose mean rises within each batch."""
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(66, 3, generator=generator, dtype=torch.float64)
    return noise + (torch.arange(66) % BATCH)[:, None]


def main() -> None:
    torch.set_num_threads(1)
    run = staves.init(batch_size=BATCH, split=SPLIT)
    norm = nn.BatchNorm1d(3, momentum=MOMENTUM)
    module = nn.Sequential(norm, nn.Linear(3, 1)).double()
    model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.01))
    batches = run.loader(TensorDataset(data()), shuffle=False)
    epochs = []
    for _ in run.epochs(EPOCHS):
        for (inputs,) in batches:
            optimizer.zero_grad()
            run.backward(model(inputs).square().mean())
            optimizer.step()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        epochs.append({"mean": norm.running_mean.clone(), "variance": norm.running_var.clone()})
    torch.save({"epochs": epochs}, Path(sys.argv[1]) / f"rank-{os.environ['RANK']}.pt")


if __name__ == "__main__":
    main()
