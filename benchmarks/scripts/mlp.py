"""A small MLP in several gradient buckets; its compute time is the devices' declared one."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import TensorDataset

import staves


def main() -> None:
    run = staves.init(batch_size=32, seed=0)
    hidden = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU())]
    model: nn.Module = nn.Sequential(*hidden, nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer = run.prepare(model, optimizer, bucket_cap_mb=0.3)
    batch, steps = run.batch_size, 120
    data = TensorDataset(torch.randn(steps * batch, 256), torch.randint(0, 10, (steps * batch,)))
    batches = run.loader(data)
    for _ in run.epochs(1):
        for inputs, targets in batches:
            run.backward(nn.functional.cross_entropy(model(inputs), targets))
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
