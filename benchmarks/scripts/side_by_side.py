"""Train one CNN with plain DDP and with Staves, in blocks of steps in turn; write the times."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import staves

BATCH = 32  # over both processes


def network() -> nn.Module:
    """2.5 million parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1, stride=2), nn.ReLU(),
        nn.Conv2d(64, 128, 3, padding=1, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(128 * 8 * 8, 290), nn.ReLU(), nn.Linear(290, 10),
    )  # fmt: skip


def plain_steps(data: TensorDataset) -> Iterator[float]:
    """Yield the seconds of step after step of plain DDP."""
    model = DistributedDataParallel(network(), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    while True:
        for inputs, targets in DataLoader(data, batch_size=BATCH // 2, shuffle=True):
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
            yield time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--blocks", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--adaptive", action="store_true")
    options = parser.parse_args()

    # A range of one batch: all of an adaptive batch's work, and the same steps.
    batch = staves.Adaptive(BATCH, max=BATCH) if options.adaptive else BATCH
    run = staves.init(batch_size=batch, seed=0, split="even")
    torch.set_num_threads(1)
    per_block = options.steps + 1  # the first of a block is left out
    length = BATCH * per_block * (options.blocks + 1)
    data = TensorDataset(torch.randn(length, 3, 32, 32), torch.randint(0, 10, (length,)))
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model, optimizer = run.prepare(model, optimizer)
    plain = None
    times: dict[str, list[list[float]]] = {"plain": [], "staves": []}
    stamps: list[float] = []
    batches = run.loader(data)
    for _ in run.epochs(1):
        for inputs, targets in batches:
            run.backward(nn.functional.cross_entropy(model(inputs), targets))
            optimizer.step()
            optimizer.zero_grad()
            stamps.append(time.perf_counter())
            if len(stamps) == per_block:
                plain = plain or plain_steps(data)
                others = [next(plain) for _ in range(per_block)]
                for name, marks in (("staves", stamps), ("plain", others)):
                    times[name].append([b - a for a, b in pairwise(marks)])
                stamps = []
    if run.is_main:  # the first block of each sets up
        options.output.write_text(json.dumps({k: v[1:] for k, v in times.items()}))


if __name__ == "__main__":
    main()
