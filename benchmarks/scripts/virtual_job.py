"""A small MLP with dropout on emulated devices; every rank writes what virtual time is compared by.

Double precision, so that what differs by more than rounding shows: in single precision rounding
grew to 1e-2 of the loss within 60 steps of this network.

A row a step and rank: when it was committed, the plan's local batches and prediction, this rank's
samples and their mean loss. Rank 0 adds what was learned of the gradient buckets.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import staves

FEATURES, CLASSES = 256, 10
BUCKET_MB = 0.6


def network() -> nn.Module:
    torch.manual_seed(1)
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(FEATURES, FEATURES), nn.LayerNorm(FEATURES), nn.ReLU()]
    last = nn.Linear(FEATURES, CLASSES)
    nn.init.zeros_(last.weight)  # all classes alike at first: gradients are noise then
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, nn.Dropout(0.1), last).double()


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def data(samples: int) -> TensorDataset:
    """Return inputs, and the classes that a noisy linear teacher gives them."""
    random = torch.Generator().manual_seed(2)
    inputs = torch.randn(samples, FEATURES, generator=random)
    scores = inputs @ torch.randn(FEATURES, CLASSES, generator=random)
    noisy = scores + 8 * torch.randn(scores.shape, generator=random)
    return TensorDataset(inputs.double(), noisy.argmax(1))


def loss_of(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
    inputs, classes = batch
    return functional.cross_entropy(model(inputs), classes)


def batch_of(text: str) -> int | staves.Adaptive:
    """Return the total batch: `128`, or `64-256` for one that adapts between the two."""
    reference, _, most = text.partition("-")
    return staves.Adaptive(int(reference), max=int(most)) if most else int(reference)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True, help="a folder")
    parser.add_argument("--samples", type=int, required=True, help="of the one pass over the data")
    parser.add_argument("--total", type=batch_of, required=True)
    parser.add_argument("--splits", type=json.loads, help="of every step; left out: learned")
    options = parser.parse_args()
    splits = options.splits
    run = staves.init(
        batch_size=options.total,
        seed=0,
        split="auto" if splits is None else lambda step: splits[min(step, len(splits) - 1)],
    )
    model = network()
    model, optimizer = run.prepare(model, optimizer_of(model), bucket_cap_mb=BUCKET_MB)
    batches = run.loader(data(options.samples), drop_last=True)
    losses: list[tuple[int, float]] = []
    rows: list[tuple[Any, ...]] = []

    def committed() -> None:
        plan = run.plan_for(run.committed_steps - 1)
        samples, loss = losses[-1]
        rows.append(
            (time.perf_counter(), plan.local_batches, plan.predicted_seconds, samples, loss)
        )

    run.on_commit(committed)
    for _ in run.epochs(1, of="data"):
        for batch in batches:
            loss = loss_of(model, batch)
            losses.append((len(batch[1]), loss.item()))
            run.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    story: dict[str, Any] = {"rows": rows, "communication": None}
    communication = run._session.progress.knowledge.communication
    if communication is not None:
        story["communication"] = {"ready": communication.ready, "seconds": communication.seconds}
    (options.output / f"{run.rank}.json").write_text(json.dumps(story))


if __name__ == "__main__":
    main()
