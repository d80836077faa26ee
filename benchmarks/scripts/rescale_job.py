"""Train an MLP of 8.4 million parameters with AdamW until its devices have changed often enough.

Rank 0, which never leaves, writes when each step ended and over how many ranks. With `--plain` it
is the same under plain DistributedDataParallel, for ever, and each row is on disk at once.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

BATCH, WIDTH, SAMPLES = 64, 1024, 16384


def network() -> nn.Sequential:
    """8.4 million parameters in 8 layers: a state of 101 MB with AdamW's two moments."""
    layers = [layer for _ in range(8) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


class Changes:
    """How often the number of ranks has changed; carried to joiners, so all ranks agree."""

    def __init__(self) -> None:
        self.count, self.world, self.steps = -1, 0, 0

    def committed(self, world: int) -> None:
        """A step was committed over that many ranks."""
        self.steps += 1
        if world != self.world:
            self.count, self.world, self.steps = self.count + 1, world, 0

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def elastic(folder: Path, wanted: int) -> None:
    import staves

    run = staves.init(batch_size=BATCH, seed=0, split="even")
    (folder / f"rank-{run.rank}.pid").write_text(str(os.getpid()))
    model: nn.Module = network()
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, optimizer = run.prepare(model, optimizer)
    changes = run.register("changes", Changes())
    run.on_commit(lambda: changes.committed(run.world_size))
    rows: list[tuple[float, int]] = []
    batches = run.loader(TensorDataset(torch.randn(SAMPLES, WIDTH)))
    for _ in run.epochs(1_000_000):
        for (inputs,) in batches:
            if changes.count >= wanted and changes.steps >= 10:
                if run.is_main:
                    (folder / "steps.json").write_text(json.dumps(rows))
                return
            run.backward(nn.functional.mse_loss(model(inputs), inputs))
            optimizer.step()
            optimizer.zero_grad()
            if run.committed:
                rows.append((time.time(), run.world_size))


def plain(folder: Path) -> None:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    (folder / f"pid-{os.getpid()}").touch()
    model = DistributedDataParallel(network(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.randn(BATCH // world, WIDTH)
    while True:
        nn.functional.mse_loss(model(data), data).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            with (folder / "steps.jsonl").open("a") as file:
                file.write(json.dumps((time.time(), world)) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--changes", type=int, default=0)
    options = parser.parse_args()
    if options.plain:
        plain(options.folder)
    else:
        elastic(options.folder, options.changes)


if __name__ == "__main__":
    main()
