"""Worker: gradients of one step and parameters after many, of several models in one launch.

equality.py FILE SPLIT     SPLIT: samples for each rank, 24,8 say
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, StepLR

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

GRADIENTS: dict[str, tuple[str, torch.dtype, int | None]] = {
    "mlp-32": ("mlp", torch.float32, None),
    "mlp-32-accumulated": ("mlp", torch.float32, 7),
    "mlp-64": ("mlp", torch.float64, None),
    "mlp-64-accumulated": ("mlp", torch.float64, 3),
    "cnn-64": ("cnn", torch.float64, None),
    "cnn-64-accumulated": ("cnn", torch.float64, 7),
    "transformer-64": ("transformer", torch.float64, None),
    "transformer-64-accumulated": ("transformer", torch.float64, 7),
    "tagger-64": ("tagger", torch.float64, None),
    "tagger-64-accumulated": ("tagger", torch.float64, 5),
    "tagger-32-accumulated": ("tagger", torch.float32, 7),
    "tagger-64-masked": ("tagger", torch.float64, None),
    "tagger-64-masked-accumulated": ("tagger", torch.float64, 4),
}
MASKED = 13
"""Samples without a token, in the cases of that name: the last ranks' whole share and more."""


def examples(name: str) -> Examples:
    return Examples(GRADIENTS[name][1], masked=MASKED if "masked" in name else 0)


# dtype, schedule, loader workers, largest local batch
RUNS: dict[str, tuple[torch.dtype, str, int, int | None]] = {
    "run-32": (torch.float32, "steps", 0, None),
    "run-64-cosine-workers": (torch.float64, "cosine", 2, None),
    "run-64-accumulated": (torch.float64, "steps of prepared", 0, 6),
}


def schedule_of(name: str, optimizer: torch.optim.Optimizer) -> LRScheduler:
    if name == "cosine":
        return CosineAnnealingLR(optimizer, T_max=5 * EPOCHS)
    return StepLR(optimizer, 4, 0.8)


def gradient(name: str, split: list[int]) -> list[torch.Tensor]:
    kind, dtype, cap = GRADIENTS[name]
    run = staves.init(batch_size=BATCH, seed=SEED, split=split, max_local_batch=cap)
    KEPT.append(run)
    model = build(kind, dtype, SEED if run.is_main else 99)  # rank 0's parameters must win
    model, optimizer = run.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    batches = run.loader(examples(name))
    gradients: list[torch.Tensor] = []
    for _ in run.epochs(1):
        for inputs, classes, tags in batches:
            optimizer.zero_grad()
            if kind == "tagger":
                run.backward(tag_loss(model(inputs), tags), weight=int((tags >= 0).sum()))
            else:
                run.backward(loss_of(model(inputs), classes))
            if run.boundary:
                gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
            optimizer.step()
            if run.boundary:
                break
    return gradients


def parameters(name: str, split: list[int]) -> list[torch.Tensor]:
    dtype, schedule_name, workers, cap = RUNS[name]
    run = staves.init(
        batch_size=BATCH,
        seed=SEED,
        split=lambda step: rotated(split, step),
        max_local_batch=cap,
    )
    KEPT.append(run)
    module = build("mlp", dtype, SEED if run.is_main else 99)
    sgd = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    if schedule_name == "steps of prepared":
        model, optimizer = run.prepare(module, sgd)
        schedule = run.prepare(schedule_of(schedule_name, optimizer))
    else:
        model, optimizer, schedule = run.prepare(module, sgd, schedule_of(schedule_name, sgd))
    batches = run.loader(Examples(dtype), num_workers=workers)
    for _ in run.epochs(EPOCHS):
        for inputs, classes, _tags in batches:
            optimizer.zero_grad()
            run.backward(loss_of(model(inputs), classes))
            optimizer.step()
            schedule.step()
    assert run.committed_steps == EPOCHS * len(batches)
    return [p.detach().clone() for p in run.unwrap(model).parameters()]


KEPT: list[Any] = []
"""The runs, which last as long as the process."""


def main() -> None:
    split = [int(part) for part in sys.argv[2].split(",")]
    results = {name: gradient(name, split) for name in GRADIENTS}
    results |= {name: parameters(name, split) for name in RUNS}
    if KEPT[0].is_main:
        torch.save(results, sys.argv[1])


if __name__ == "__main__":
    main()
