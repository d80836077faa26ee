"""Worker: what real scripts use, over two ranks, each case to be compared with one process.

features.py FILE     writes FILE: {case: parameters}, and under "compiled" how often it compiled
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

import staves
from tests.training.scripts.models import BATCH, SEED, Examples, build, loss_of, rotated

F64 = torch.float64
ALONE = os.environ.get("WORLD_SIZE", "1") == "1"
SPLIT = [21, 11]


class Branches(nn.Module):
    """One of two heads is used, by the parity of the step: the other's parameters are unused."""

    def __init__(self) -> None:
        super().__init__()
        self.body = build("mlp", F64)
        self.heads = nn.ModuleList([nn.Linear(10, 10).to(F64) for _ in range(2)])
        self.calls = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        outputs: torch.Tensor = self.heads[self.calls % 2](self.body(inputs))
        return outputs


class HalfUsed(nn.Module):
    """A head that is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.spare = build("mlp", F64), nn.Linear(3, 3).to(F64)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.body(inputs)
        return outputs


class Summed(nn.Module):
    """A model that returns its own loss, summed over the samples, beside its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.body = build("mlp", F64)

    def forward(self, inputs: torch.Tensor, classes: torch.Tensor) -> dict[str, torch.Tensor]:
        outputs = self.body(inputs)
        return {
            "loss": nn.functional.cross_entropy(outputs, classes, reduction="sum"),
            "outputs": outputs,
        }


def mlp() -> nn.Module:
    return build("mlp", F64)


def whole(module: nn.Module) -> list[dict[str, Any]]:
    return [{"params": list(module.parameters())}]


def groups(module: nn.Module) -> list[dict[str, Any]]:
    weights = [p for p in module.parameters() if p.dim() > 1]
    biases = [p for p in module.parameters() if p.dim() == 1]
    return [{"params": weights, "weight_decay": 0.1}, {"params": biases, "lr": 0.02}]


BUILDS: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "static graph": (HalfUsed, {"static_graph": True}),
    "static graph, accumulating": (HalfUsed, {"static_graph": True}),
    "unused parameters": (Branches, {"find_unused_parameters": True}),
    "parameter groups": (mlp, {}),
    "clipped": (mlp, {}),
    "summed loss": (Summed, {}),
    "compiled": (mlp, {}),
}
COMPILED: list[int] = []


def counting(graph: Any, example_inputs: Any) -> Any:
    COMPILED.append(1)
    return graph.forward


def train(name: str) -> list[torch.Tensor]:
    construct, options = BUILDS[name]
    run = staves.init(
        batch_size=BATCH,
        seed=SEED,
        split="auto" if ALONE else lambda step: rotated(SPLIT, step),
        max_local_batch=6 if "accumulating" in name and not ALONE else None,
    )
    KEPT.append(run)
    module: Any = construct()
    parameters = list(module.parameters())
    optimizer = torch.optim.SGD(
        (groups if name == "parameter groups" else whole)(module), lr=0.1, momentum=0.9
    )
    if name == "compiled":
        torch.compiler.reset()
        module = torch.compile(module, backend=counting)
    model, optimizer = run.prepare(module, optimizer, **options)
    batches = run.loader(Examples(F64))
    for _ in run.epochs(3):
        for inputs, classes, _tags in batches:
            optimizer.zero_grad()
            if name == "summed loss":
                count = len(inputs)
                run.backward(model(inputs, classes)["loss"] / count, weight=count)
            else:
                run.backward(loss_of(model(inputs), classes))
            if name == "clipped":
                clip_grad_norm_(model.parameters(), 0.3)
            optimizer.step()
    return [p.detach().clone() for p in parameters]


KEPT: list[Any] = []
"""The runs, which last as long as the process."""


def main() -> None:
    torch.set_num_threads(1)  # many processes share few cores
    results: dict[str, Any] = {name: train(name) for name in BUILDS}
    results["compilations"] = len(COMPILED)
    if KEPT[0].is_main:
        torch.save(results, sys.argv[1])


if __name__ == "__main__":
    main()
