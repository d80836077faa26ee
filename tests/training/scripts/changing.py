"""Worker: its first device becomes slower in mid-run, and fast again; rank 0 writes the splits.

changing.py FILE FROM UNTIL STEPS
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import staves
from staves.hardware import DeviceProfile, Pace

FACTOR = 2.0


def slower(profile: DeviceProfile) -> DeviceProfile:
    def times(pace: Pace) -> Pace:
        return Pace(pace.fixed * FACTOR, pace.per_sample * FACTOR)

    return replace(profile, forward=times(profile.forward), backward=times(profile.backward))


def main() -> None:
    file, first, last, steps = Path(sys.argv[1]), *map(int, sys.argv[2:])
    run = staves.init(batch_size=24, seed=0)
    torch.set_num_threads(1)
    module = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
    sgd = torch.optim.SGD(module.parameters(), lr=0.01)
    model, optimizer = run.prepare(module, sgd)
    batches = run.loader(TensorDataset(torch.randn(24 * steps, 8)))
    splits: list[tuple[int, ...]] = []
    pacer = run._session.pacer
    assert pacer is not None
    declared = pacer.profile

    def committed() -> None:
        splits.append(run.plan.local_batches)
        if run.rank == 0:
            changed = first <= run.committed_steps < last
            pacer.profile = slower(declared) if changed else declared

    run.on_commit(committed)
    for _ in run.epochs(1):
        for (inputs,) in batches:
            run.backward(model(inputs).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    if run.is_main:
        knowledge = run._session.progress.knowledge.to_document()
        file.write_text(json.dumps({"splits": splits, "knowledge": knowledge}))


if __name__ == "__main__":
    main()
