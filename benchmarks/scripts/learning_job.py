"""A small MLP whose devices may change speed in mid-run; rank 0 writes every step's story.

A row a step: when it was committed, which plan it ran under, its local batches and prediction.
With `--search`, splits are tried in turn instead, in blocks of steps.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

import staves
from staves.hardware import Pace

BLOCK = 10
"""Steps of one split in a row, where splits are searched; the first of them is left out."""


def slowed(pace: Pace, factor: float) -> Pace:
    return Pace(pace.fixed * factor, pace.per_sample * factor, pace.floor * factor)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument("--slow", type=int, nargs=2, default=(0, 0), metavar=("FROM", "UNTIL"))
    parser.add_argument("--factor", type=float, default=2.0)
    parser.add_argument("--search", type=json.loads, default=None)
    options = parser.parse_args()

    candidates = options.search
    run = staves.init(
        batch_size=64,
        seed=0,
        split="auto"
        if candidates is None
        else lambda step: candidates[step // BLOCK % len(candidates)],
    )
    torch.set_num_threads(1)
    hidden = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU())]
    model: nn.Module = nn.Sequential(*hidden, nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer = run.prepare(model, optimizer, bucket_cap_mb=0.3)
    samples = options.steps * run.batch_size
    batches = run.loader(TensorDataset(torch.randn(samples, 256), torch.randint(0, 10, (samples,))))
    rows: list[tuple[Any, ...]] = []

    def committed() -> None:
        step, plan, pacer = run.committed_steps, run.plan_for(run.committed_steps - 1), pace()
        rows.append((time.perf_counter(), plan.number, plan.local_batches, plan.predicted_seconds))
        if pacer is not None and run.rank == options.slow_rank:
            slow = options.slow[0] <= step < options.slow[1]
            factor = options.factor if slow else 1.0
            pacer.profile = replace(
                declared,
                forward=slowed(declared.forward, factor),
                backward=slowed(declared.backward, factor),
            )

    def pace() -> staves.training.Pacer | None:
        return run._session.pacer

    pacer = pace()
    assert pacer is not None, "the devices of this benchmark are emulated"
    declared = pacer.profile
    run.on_commit(committed)
    for _ in run.epochs(1):
        for inputs, targets in batches:
            run.backward(nn.functional.cross_entropy(model(inputs), targets))
            optimizer.step()
            optimizer.zero_grad()
    if run.is_main:
        knowledge = run._session.progress.knowledge.to_document()
        options.output.write_text(json.dumps({"rows": rows, "knowledge": knowledge}))


if __name__ == "__main__":
    main()
