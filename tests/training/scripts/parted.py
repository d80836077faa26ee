"""Worker: a sharded model that is saved, and loses a rank where it is told to.

parted.py FILE FOLDER EPOCHS [STEP]     STEP: before which the last rank kills itself
"""

from __future__ import annotations

import os
import signal
import sys

import torch
from torch.distributed.fsdp import fully_shard

import staves
from tests.training.scripts.models import BATCH, SEED, Examples, build, loss_of
from tests.training.scripts.sharded import whole


class Count:
    """How many steps were committed, in this attempt and those before."""

    def __init__(self) -> None:
        self.steps = 0

    def add(self) -> None:
        self.steps += 1

    def state_dict(self) -> dict[str, int]:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.steps = state["steps"]


def main() -> None:
    file, folder, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    fatal = int(sys.argv[4]) if len(sys.argv) > 4 else None
    torch.set_num_threads(1)
    run = staves.init(
        batch_size=BATCH, seed=SEED, checkpoint=folder, checkpoint_every=0.0, checkpoint_keep=99
    )
    mesh = run.mesh()
    model = fully_shard(build("mlp", torch.float64), mesh=mesh)
    adam = torch.optim.AdamW(model.parameters(), lr=0.01)
    model, optimizer, schedule = run.prepare(
        model, adam, torch.optim.lr_scheduler.StepLR(adam, 4, 0.8)
    )
    count = run.register("count", Count())
    run.on_commit(count.add)
    batches = run.loader(Examples(torch.float64))
    for _ in run.epochs(epochs):
        for inputs, classes, _tags in batches:
            if run.committed_steps == fatal and run.rank == run.world_size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            run.backward(loss_of(model(inputs), classes))
            optimizer.step()
            schedule.step()
    parameters = [whole(p) for p in model.parameters()]
    if run.is_main:
        torch.save({"parameters": parameters, "count": count.steps}, file)


if __name__ == "__main__":
    main()
