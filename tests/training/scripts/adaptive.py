"""Worker: a small training with an adaptive batch; rank 0 writes what every step was.

adaptive.py FILE OPTIONS     OPTIONS: JSON, see `Options`
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, StepLR

import staves
from staves.training._batch import LearningRateRule

FEATURES, SAMPLES, SEED = 16, 3000, 3
REFERENCE = 24


@dataclass(frozen=True)
class Options:
    optimizer: str = "sgd"
    most: int | None = 512
    rule: LearningRateRule = "auto"
    epochs: int = 6
    of: str = "progress"
    caps: tuple[int | None, ...] = (None,)
    workers: int = 0
    checkpoint: str | None = None
    stop_after: int | None = None


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """A regression whose labels are noisy: gradients are, too."""
    generator = torch.Generator().manual_seed(SEED)
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator, dtype=torch.float64)
    noise = torch.randn(SAMPLES, 1, generator=generator, dtype=torch.float64)
    return inputs, torch.tanh(inputs[:, :4]).sum(1, keepdim=True) + noise


def build() -> nn.Module:
    torch.manual_seed(SEED)
    return nn.Sequential(nn.Linear(FEATURES, 24), nn.Tanh(), nn.Linear(24, 1)).double()


def optimizer_of(name: str, module: nn.Module) -> torch.optim.Optimizer:
    if name == "sgd":
        return torch.optim.SGD(module.parameters(), lr=0.02, momentum=0.9)
    return torch.optim.AdamW(module.parameters(), lr=0.003)


def schedule_of(optimizer: torch.optim.Optimizer) -> LRScheduler:
    return StepLR(optimizer, 100, 0.8)


def main() -> None:
    options = Options(**json.loads(sys.argv[2]))
    inputs, targets = data()
    run = staves.init(
        batch_size=staves.Adaptive(REFERENCE, options.most, options.rule),
        seed=SEED,
        max_local_batch=options.caps[0],
        checkpoint=options.checkpoint,
    )
    module = build()
    optimizer = optimizer_of(options.optimizer, module)
    steps: list[dict[str, Any]] = []

    def note(stepping: torch.optim.Optimizer, *_: object) -> None:
        plan = run.plan
        steps.append(
            {
                "epoch": batches.cursor.epoch,
                "start": batches.cursor.position,
                "batch": min(plan.batch, SAMPLES - batches.cursor.position),
                "local_batches": plan.local_batches,
                "micro_steps": plan.micro_steps,
                "rate": stepping.param_groups[0]["lr"],
                "noise_scale": run.noise_scale,
            }
        )

    optimizer.register_step_pre_hook(note)
    model, optimizer_, schedule_ = run.prepare(module, optimizer, schedule_of(optimizer))
    dataset = torch.utils.data.TensorDataset(inputs, targets)
    batches = run.loader(dataset, num_workers=options.workers)
    for _ in run.epochs(options.epochs, of=options.of):  # type: ignore[arg-type]
        for x, y in batches:
            optimizer_.zero_grad()
            run.backward(nn.functional.mse_loss(model(x), y))
            optimizer_.step()
            schedule_.step()
            if options.stop_after is not None and run.committed_steps >= options.stop_after:
                sys.exit(0)
    if run.is_main:
        parameters = [p.detach().clone() for p in module.parameters()]
        result = {
            "steps": steps,
            "report": run.report(),
            "parameters": parameters,
            "moves": schedule_.last_epoch,
        }
        torch.save(result, sys.argv[1])


if __name__ == "__main__":
    main()
