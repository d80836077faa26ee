"""Worker: a sharded model that is saved, and loses a rank where it is told to.

parted.py FILE FOLDER EPOCHS [STEP]     STEP: before which the last rank kills itself

Rank 0 writes a line to the file that ANNOUNCE names once it trains.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch.distributed.fsdp import fully_shard

import staves
from tests.training.scripts.models import BATCH, SEED, Examples, build, loss_of
from tests.training.scripts.sharded import whole


class Ema:
    """Mean weights, sharded as the model's, and how many steps are in them."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.steps = model, 0
        self.weights = [p.detach().clone() for p in model.parameters()]

    def update(self) -> None:
        self.steps += 1
        for mean, parameter in zip(self.weights, self.model.parameters(), strict=True):
            mean.lerp_(parameter.detach(), 0.1)

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "weights": self.weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps, self.weights = state["steps"], list(state["weights"])


def main() -> None:
    file, folder, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    fatal = int(sys.argv[4]) if len(sys.argv) > 4 else None
    torch.set_num_threads(1)
    run = staves.init(
        batch_size=BATCH, seed=SEED, checkpoint=folder, checkpoint_every=0.0, checkpoint_keep=99
    )
    mesh = run.mesh()
    module = build("mlp", torch.float64)
    fully_shard(module, mesh=mesh)
    adam = torch.optim.AdamW(module.parameters(), lr=0.01)
    model, optimizer, schedule = run.prepare(
        module, adam, torch.optim.lr_scheduler.StepLR(adam, 4, 0.8)
    )
    ema = run.register("ema", Ema(module))
    run.on_commit(ema.update)
    batches = run.loader(Examples(torch.float64))
    for _ in run.epochs(epochs):
        for inputs, classes, _tags in batches:
            if run.committed_steps == fatal and run.rank == run.world_size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if run.committed_steps == 5 and run.is_main and "ANNOUNCE" in os.environ:
                Path(os.environ["ANNOUNCE"]).write_text("trains\n")
            optimizer.zero_grad()
            run.backward(loss_of(model(inputs), classes))
            optimizer.step()
            schedule.step()
    end = {
        "parameters": [whole(p) for p in model.parameters()],
        "mean": [whole(p) for p in ema.weights],
        "steps": ema.steps,
    }
    if run.is_main:
        torch.save(end, file)


if __name__ == "__main__":
    main()
