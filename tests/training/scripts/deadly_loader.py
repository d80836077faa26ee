"""A stream or indexed data whose loader worker dies at sample 9, as for want of memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import torch
from torch.utils.data import Dataset, IterableDataset

import staves


class DeadlyStream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(30):
            if number == 9:
                os._exit(3)
            yield torch.full((1,), float(number))


class DeadlyIndexed(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 30

    def __getitem__(self, number: int) -> torch.Tensor:
        if number == 9:
            os._exit(3)
        return torch.full((1,), float(number))


if __name__ == "__main__":
    run = staves.init(batch_size=4)
    data = DeadlyStream() if sys.argv[1] == "stream" else DeadlyIndexed()
    module = torch.nn.Linear(1, 1)
    model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.01))
    batches = run.loader(data, num_workers=1)
    for _ in run.epochs(2):
        for inputs in batches:
            optimizer.zero_grad()
            run.backward(model(inputs).mean())
            optimizer.step()
