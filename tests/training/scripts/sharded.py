"""Worker: a model that is sharded over the ranks, trained in several ways in one launch.

sharded.py FILE SPLIT     SPLIT: samples for each rank, 24,8 say; whole: a model that is not sharded
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import staves
from tests.training.scripts.models import (
    BATCH,
    EPOCHS,
    SEED,
    Examples,
    build,
    loss_of,
    rotated,
    tag_loss,
)

# kind of model, dtype, largest local batch, samples without a token, largest norm
CASES: dict[str, tuple[str, torch.dtype, int | None, int, float | None]] = {
    "transformer-32": ("transformer", torch.float32, None, 0, None),
    "transformer-64": ("transformer", torch.float64, None, 0, None),
    "mlp-64-accumulated": ("mlp", torch.float64, 3, 0, None),
    "mlp-64-clipped": ("mlp", torch.float64, None, 0, 0.05),
    "tagger-64-accumulated-masked": ("tagger", torch.float64, 5, 13, None),
}


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def train(name: str, split: list[int] | None) -> dict[str, Any]:
    kind, dtype, cap, masked, max_norm = CASES[name]
    run = staves.init(
        batch_size=BATCH,
        seed=SEED,
        split="auto" if split is None else lambda step: rotated(split, step),
        max_local_batch=cap,
    )
    KEPT.append(run)
    module = build(kind, dtype)
    if split is not None:
        mesh = run.mesh()
        for layer in list(module.children())[:-1]:
            if any(True for _ in layer.parameters()):
                fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
    sgd = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(sgd, 4, 0.8)
    model, optimizer, schedule = run.prepare(module, sgd, schedule)
    batches = run.loader(Examples(dtype, masked=masked))
    gradients: list[torch.Tensor] = []
    norms: list[float] = []
    for _ in run.epochs(EPOCHS):
        for inputs, classes, tags in batches:
            optimizer.zero_grad()
            if kind == "tagger":
                run.backward(tag_loss(model(inputs), tags), weight=int((tags >= 0).sum()))
            else:
                run.backward(loss_of(model(inputs), classes))
            if run.boundary and not gradients:
                gradients = [whole(p.grad) for p in model.parameters() if p.grad is not None]
            if max_norm is not None and run.boundary:
                norm = run.clip_grad_norm_(max_norm)
                assert norm is not None
                norms.append(float(norm))
            optimizer.step()
            schedule.step()
    return {
        "gradients": gradients,
        "parameters": [whole(p) for p in model.parameters()],
        "norms": norms,
    }


KEPT: list[Any] = []
"""The runs, which last as long as the process."""


def main() -> None:
    torch.set_num_threads(1)
    split = None if sys.argv[2] == "whole" else [int(part) for part in sys.argv[2].split(",")]
    results = {name: train(name, split) for name in CASES}
    if KEPT[0].is_main:
        torch.save(results, sys.argv[1])


if __name__ == "__main__":
    main()
