"""A small MLP that trains until it is stopped, and tells of its steps in lines of JSON.

Rank 0 writes when each was committed, on which devices, its local batches, and what was predicted;
every rank those that missed a declared deadline.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

import staves

SAMPLES = 19_200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--width", type=int, default=256, help="of the hidden layers")
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = staves.init(batch_size=options.batch, seed=0)
    width = options.width
    hidden = [layer for _ in range(6) for layer in (nn.Linear(width, width), nn.ReLU())]
    model: nn.Module = nn.Sequential(*hidden, nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer = run.prepare(model, optimizer, bucket_cap_mb=0.3)
    data = TensorDataset(torch.randn(SAMPLES, width), torch.randint(0, 10, (SAMPLES,)))
    batches = run.loader(data)

    pacer, missed = run._session.pacer, 0
    assert pacer is not None, "the devices of this benchmark are emulated"

    def tell(row: dict[str, Any]) -> None:
        with options.rows.open("a") as rows:
            rows.write(json.dumps(row) + "\n")

    def committed() -> None:
        nonlocal missed
        if pacer.missed > missed:
            missed = pacer.missed
            tell({"missed": 1})
        generation, plan = run._session._generation, run.plan_for(run.committed_steps - 1)
        if not run.is_main or generation is None:
            return
        tell(
            {
                "at": time.monotonic(),
                "devices": [device.name for device, _ in generation.seats],
                "plan": plan.number,
                "stage": plan.stage,
                "local_batches": plan.local_batches,
                "predicted_seconds": plan.predicted_seconds,
            }
        )

    run.on_commit(committed)
    for _ in run.epochs(1000):
        for inputs, targets in batches:
            run.backward(nn.functional.cross_entropy(model(inputs), targets))
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
