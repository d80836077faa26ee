"""Worker: one rank runs out of memory, in many ways, in one launch.

exhausted.py FOLDER [COUNT]     writes FOLDER/N.pt (parameters) and FOLDER/N.json of each rank N,
                                for the first COUNT cases or all
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

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

WHERE = (1,)  # the ranks that run out
SPLIT = [18, 14]


@dataclass(frozen=True)
class Case:
    """`limit`: more samples than that at once are too many, in this pass, from that step on."""

    where: str = "forward"
    limit: int = 9
    step: int = 3
    once: bool = False
    kind: str = "mlp"
    split: Any = None
    cap: int | None = None
    adaptive: bool = False
    options: dict[str, Any] = field(default_factory=dict)


SMALL = {"bucket_cap_mb": 0.004}
CASES: dict[str, Case] = {
    "forward": Case(),
    "forward, in the very first step": Case(step=0, options=SMALL),
    "forward, in the second step": Case(step=1, options=SMALL),
    "forward, once": Case(once=True, limit=0),
    "forward, split by itself": Case(split="auto"),
    "forward, other splits each step": Case(split="rotating"),
    "forward, accumulating": Case(cap=6, limit=4, options=SMALL),
    "backward": Case("backward", options=SMALL),
    "backward, in the very first step": Case("backward", step=0, options=SMALL),
    "backward, once": Case("backward", once=True, limit=0, options=SMALL),
    "backward, accumulating": Case("backward", cap=6, limit=4, options=SMALL),
    "static graph": Case("backward", options={"static_graph": True, **SMALL}),
    "static graph, at first": Case(step=0, options={"static_graph": True}),
    "unused parameters": Case("backward", options={"find_unused_parameters": True, **SMALL}),
    "unused parameters, forward": Case(options={"find_unused_parameters": True}),
    "an adaptive batch": Case("backward", split="auto", adaptive=True, options=SMALL),
    "tokens, forward": Case(kind="tagger", options=SMALL),
    "tokens, backward": Case("backward", kind="tagger", cap=8, limit=4, options=SMALL),
}


class Short(torch.autograd.Function):
    """The identity, whose backward pass runs out of memory where it is told to."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, too_much: bool) -> torch.Tensor:
        ctx.too_much = too_much
        return inputs.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        if ctx.too_much:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return gradient, None


class Hungry(nn.Module):
    """A model that runs out of memory on some ranks, between its own layers."""

    def __init__(self, body: nn.Module, case: Case, run: staves.training.Run) -> None:
        super().__init__()
        self.body, self.case, self.run = body, case, run
        self.head = nn.Linear(10, 10).to(next(body.parameters()).dtype)
        self.times = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        case = self.case
        too_much = len(inputs) > case.limit and self.run.committed_steps >= case.step
        too_much &= self.run.world_size > 1 and self.run.rank in WHERE
        too_much &= not (case.once and self.times)
        self.times += too_much
        if too_much and case.where == "forward":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        middle = Short.apply(self.body(inputs), too_much)  # type: ignore[no-untyped-call]
        outputs: torch.Tensor = self.head(middle)
        return outputs


def split_of(case: Case) -> Any:
    if os.environ.get("WORLD_SIZE", "1") == "1" or case.split == "auto":
        return "auto"
    if case.split == "rotating":
        return lambda step: rotated(SPLIT, step)
    return SPLIT


def train(name: str) -> tuple[list[torch.Tensor], dict[str, Any]]:
    case = CASES[name]
    run = staves.init(
        batch_size=staves.Adaptive(BATCH, max=3 * BATCH) if case.adaptive else BATCH,
        seed=SEED,
        split=split_of(case),
        max_local_batch=case.cap,
    )
    KEPT.append(run)
    module = Hungry(build(case.kind, torch.float64), case, run)
    sgd = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(sgd, 4, 0.8)
    model, optimizer, schedule = run.prepare(module, sgd, schedule, **case.options)
    batches = run.loader(Examples(torch.float64), num_workers=1 if "once" in name else 0)
    void = largest = 0
    for _ in run.epochs(EPOCHS):
        for inputs, classes, tags in batches:
            optimizer.zero_grad()
            if case.kind == "tagger":
                run.backward(tag_loss(model(inputs), tags), weight=int((tags >= 0).sum()))
            else:
                run.backward(loss_of(model(inputs), classes))
            largest = max(largest, len(inputs))
            if run.boundary and not run.committed:
                void, largest = void + 1, 0
            optimizer.step()
            schedule.step()
    facts = {
        "void": void,
        "steps": run.committed_steps,
        "samples": run.report()["samples"],
        "largest": largest,
    }
    return [p.detach().clone() for p in module.parameters()], facts


KEPT: list[Any] = []
"""The runs, which last as long as the process."""


def main() -> None:
    torch.set_num_threads(1)  # many processes share few cores
    folder = Path(sys.argv[1])
    names = list(CASES)[: int(sys.argv[2]) if len(sys.argv) > 2 else None]
    results = {name: train(name) for name in names}
    rank = KEPT[0].rank
    torch.save({name: end for name, (end, _) in results.items()}, folder / f"{rank}.pt")
    facts = {name: found for name, (_, found) in results.items()}
    (folder / f"{rank}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
