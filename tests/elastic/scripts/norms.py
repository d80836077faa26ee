"""Worker: a model with BatchNorm, at the driver's pace (see `worker.py`).

norms.py FOLDER     writes FOLDER/norms-M-E.pt: the running statistics of member M after pass E
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import staves
from tests.elastic.scripts.worker import pace

EPOCHS, CENTRE = 40, 5.0


def main() -> None:
    torch.set_num_threads(1)
    folder, member = Path(sys.argv[1]), os.environ["STAVES_MEMBER"]
    (folder / "pids").mkdir(exist_ok=True)
    (folder / "pids" / member).write_text(str(os.getpid()))
    inputs = CENTRE + torch.randn(80, 3, generator=torch.Generator().manual_seed(1))
    run = staves.init(batch_size=16, split="even")
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1))
    model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.01))
    batches = run.loader(TensorDataset(inputs))
    for epoch in run.epochs(EPOCHS):
        for (x,) in batches:
            pace(folder, member, run.committed_steps)
            optimizer.zero_grad()
            run.backward(model(x).square().mean())
            optimizer.step()
        torch.save(module[0].state_dict(), folder / f"norms-{member}-{epoch}.pt")


if __name__ == "__main__":
    main()
