"""What two ranks run that measure the link between their nodes: `-m staves.training.link_probe`.

The buffers go the way of gradients: the same group, over the addresses that a job's ranks use, NCCL
between GPUs and gloo else. Links that are only emulated hold gradients back, and not these: it is
the real wire that is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import TensorDataset

import staves

FIRST, GROWTH, LARGEST = 1 << 16, 4, 1 << 26
"""Bytes of the first buffer, how much larger the next one is, and the largest."""

LONG = 0.1
"""Seconds of an all-reduce after which no larger one is needed."""

_UNTIMED = 2
_FEWEST, _MOST = 7, 31
"""Repeats of which the median counts: small buffers, which vary most, are cheap to repeat."""


def all_reduce_seconds(device: torch.device) -> list[tuple[int, float]]:
    """Return (bytes, median seconds of the slower rank) for buffers of growing size.

    Two at least; then until one takes `LONG`. All ranks return the same.
    """
    found: list[tuple[int, float]] = []
    size = FIRST
    while size <= LARGEST and (len(found) < 2 or found[-1][1] < LONG):
        buffer = torch.zeros(size // 4, device=device)
        once = _median(buffer, _UNTIMED)
        repeats = min(max(_FEWEST, round(LONG / once)), _MOST)
        found.append((size, _median(buffer, repeats)))
        size *= GROWTH
    return found


def _median(buffer: torch.Tensor, repeats: int) -> float:
    """Return the median seconds of an all-reduce on the slower rank: it has waited for all bytes.

    Both ranks are told the same, and so come to the same number of repeats and sizes.
    """
    own = []
    for _ in range(repeats):
        dist.barrier()
        _finish(buffer.device)
        begin = time.perf_counter()
        dist.all_reduce(buffer)
        _finish(buffer.device)
        own.append(time.perf_counter() - begin)
    slower = torch.tensor([statistics.median(own)], dtype=torch.float64)
    dist.all_reduce(slower, op=dist.ReduceOp.MAX)
    return float(slower)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    """Join the group, measure, and have rank 0 write what was found."""
    parser = argparse.ArgumentParser(description="Measure the link between two ranks.")
    parser.add_argument("--result", type=Path, required=True, help="JSON, written by rank 0")
    parser.add_argument("--batch", type=int, required=True, help="the least that the devices take")
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = staves.init(batch_size=options.batch)
    model: nn.Module = nn.Linear(1, 1).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    model, optimizer = run.prepare(model, optimizer)
    data = TensorDataset(torch.zeros(options.batch, 1))
    for _ in run.epochs(1):
        for (inputs,) in run.loader(data):
            measured = all_reduce_seconds(run.device)
            if run.is_main:
                part = options.result.with_suffix(f".{os.getpid()}")
                part.write_text(json.dumps(measured))
                part.rename(options.result)
            run.backward(model(inputs.to(run.device)).sum())
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
