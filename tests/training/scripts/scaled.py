"""Worker: losses scaled as for fp16, of which one rank's overflows now and then.

scaled.py FOLDER     writes FOLDER/N.pt (parameters by case) and FOLDER/N.json (void steps) of rank
                     N
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_

import staves
from tests.training.scripts.models import BATCH, EPOCHS, SEED, Examples, build, loss_of

SPLIT = [20, 12]


@dataclass(frozen=True)
class Case:
    """`overflows`: steps at which the last rank's loss is infinite, once."""

    scale: float = 2.0**10
    overflows: tuple[int, ...] = (3,)
    cap: int | None = None
    clip: str = ""
    optimizers: int = 1
    enabled: bool = True
    autocast: torch.dtype | None = None
    dtype: torch.dtype = torch.float64


CASES: dict[str, Case] = {
    "one step": Case(),
    "the first and the last step": Case(overflows=(0, 19)),
    "steps in a row": Case(overflows=(4, 5, 6)),
    "accumulating": Case(cap=5),
    "clipped by torch": Case(clip="torch"),
    "clipped by the run": Case(clip="run", cap=9),
    "two optimizers": Case(optimizers=2, clip="torch"),
    "disabled": Case(enabled=False, overflows=()),
    "fp16": Case(autocast=torch.float16, dtype=torch.float32, scale=2.0**24, overflows=()),
    "bf16": Case(autocast=torch.bfloat16, dtype=torch.float32, enabled=False, overflows=()),
}
VOID = {"the first and the last step": 2, "steps in a row": 3, "disabled": 0, "bf16": 0}
"""Void steps, where that is not 1 or (fp16, whose first scale is too large) as many as it takes."""


def train(name: str) -> tuple[list[torch.Tensor], int]:
    case = CASES[name]
    alone = os.environ.get("WORLD_SIZE", "1") == "1"
    run = staves.init(
        batch_size=BATCH,
        seed=SEED,
        split="auto" if alone else SPLIT,
        max_local_batch=None if alone else case.cap,
    )
    KEPT.append(run)
    module = build("mlp", case.dtype)
    parameters = list(module.parameters())
    parts = [parameters] if case.optimizers == 1 else [parameters[:2], parameters[2:]]
    model, *optimizers = run.prepare(
        module, *(torch.optim.SGD(part, lr=0.1, momentum=0.9) for part in parts)
    )
    enabled = case.enabled and not alone
    scaler = run.prepare(torch.amp.GradScaler("cpu", init_scale=case.scale, enabled=enabled))
    batches = run.loader(Examples(parameters[0].dtype))
    left = set() if alone or run.rank != run.world_size - 1 else set(case.overflows)
    void = 0
    for _ in run.epochs(EPOCHS):
        for inputs, classes, _tags in batches:
            for optimizer in optimizers:
                optimizer.zero_grad()
            autocast = torch.autocast("cpu", case.autocast, enabled=case.autocast is not None)
            with autocast:
                loss = loss_of(model(inputs), classes)
            if run.committed_steps in left and run.boundary:
                left.remove(run.committed_steps)
                loss = loss * float("inf")
            run.backward(scaler.scale(loss))
            if case.clip == "torch":
                for optimizer in optimizers:
                    scaler.unscale_(optimizer)
                clip_grad_norm_(model.parameters(), 0.5)
            elif case.clip == "run":
                run.clip_grad_norm_(0.5)
            for optimizer in optimizers:
                scaler.step(optimizer)
            scaler.update()
            void += run.boundary and not run.committed
    assert run.committed_steps == 5 * EPOCHS
    return [p.detach().clone() for p in parameters], void


KEPT: list[Any] = []
"""The runs, which last as long as the process."""


def main() -> None:
    torch.set_num_threads(1)  # many processes share few cores
    folder = Path(sys.argv[1])
    results = {name: train(name) for name in CASES}
    rank = KEPT[0].rank
    torch.save({name: end for name, (end, _) in results.items()}, folder / f"{rank}.pt")
    (folder / f"{rank}.json").write_text(json.dumps({n: void for n, (_, void) in results.items()}))


if __name__ == "__main__":
    main()
