"""Worker: what every rank is given by the loader, in many ways, in one launch.

    loading.py FOLDER     writes FOLDER/rank-N.json: {case: {"splits": ..., "epochs": ...}}

Each epoch is a list of steps, each step a list of micro-batches, each micro-batch a list of sample
numbers; a step's split stands beside it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import staves
from staves.errors import StavesError

CASES: dict[str, dict[str, Any]] = {
    "plain": {"length": 50, "split": [5, 3]},
    "in order": {"length": 50, "split": [5, 3], "shuffle": False},
    "drop last": {"length": 50, "split": [5, 3], "drop_last": True, "num_workers": 1},
    "workers": {"length": 50, "split": "rotating", "num_workers": 2, "persistent_workers": True},
    "micro": {"length": 50, "split": [6, 2], "cap": 2, "num_workers": 2, "prefetch_factor": 4},
    "zero": {"length": 20, "split": [8, 0]},
    "one short batch an epoch": {"length": 3, "split": "auto"},
    "broken off": {"length": 50, "split": "rotating", "num_workers": 2, "steps": 3},
    "broken off at the end": {"length": 24, "split": [5, 3], "num_workers": 1, "steps": 3},
    "broken off within a step": {"length": 50, "split": [6, 2], "cap": 2, "steps": 2, "micro": 2},
    "replanned": {"length": 250, "split": "auto", "num_workers": 2, "prefetch_factor": 3},
}
BATCH = 8
EPOCHS = {"one short batch an epoch": 30}


class Numbers(Dataset[int]):
    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> int:
        assert 0 <= index < self._length
        return index


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Nested(Numbers):
    def __getitem__(self, index: int) -> Any:
        one = torch.tensor(float(index))
        return {"x": one, "pair": Pair(one, -one), "more": (one, [one, one]), "name": str(index)}


def rotating(step: int) -> list[int]:
    return [(7 * step) % 9, 8 - (7 * step) % 9]


def collect(name: str) -> dict[str, Any]:
    options = dict(CASES[name])
    length, split = options.pop("length"), options.pop("split")
    cap, steps = options.pop("cap", None), options.pop("steps", None)
    micro = options.pop("micro", None)
    run = staves.init(
        batch_size=BATCH,
        seed=3,
        split=rotating if split == "rotating" else split,
        max_local_batch=cap,
    )
    KEPT.append(run)
    module = nn.Linear(1, 1)
    model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.0))
    batches = run.loader(Numbers(length), **options)
    epochs: list[list[dict[str, Any]]] = []
    plans: list[str] = []
    for _ in run.epochs(EPOCHS.get(name, 3)):
        epoch: list[dict[str, Any]] = []
        fresh = True
        for numbers in batches:
            if fresh:
                split = list(run.plan_for(run.committed_steps).local_batches)
                epoch.append({"split": split, "samples": []})
            epoch[-1]["samples"].append(numbers.tolist())
            if len(epoch) == steps and len(epoch[-1]["samples"]) == micro:
                break  # no backward pass: this step never was
            run.backward(model(numbers[:, None].float()).mean())
            fresh = run.boundary
            optimizer.step()
            if not plans or plans[-1] != run.plan.stage:
                plans.append(run.plan.stage)
            if len(epoch) == steps and fresh and micro is None:
                break
        epochs.append(epoch)
    return {
        "epochs": epochs,
        "length": len(batches),
        "stages": plans,
        "steps": run.committed_steps,
        "report": run.report(),
    }


def nested() -> list[str]:
    """Return the types in a nested batch."""
    run = staves.init(batch_size=4, split=[3, 1])
    KEPT.append(run)
    model = run.prepare(nn.Linear(1, 1))
    found = []
    for _ in run.epochs(1):
        for batch in run.loader(Nested(4)):
            assert torch.equal(batch["pair"].second, -batch["x"])
            assert [str(int(x)) for x in batch["x"]] == batch["name"]
            found = [type(batch["pair"]).__name__, type(batch["more"]).__name__]
            run.backward(model(batch["x"][:, None]).mean())
    return found


def misuse() -> list[str]:
    """Return what a wrong loop is told, on this rank."""
    run = staves.init(batch_size=4, split=[3, 1])
    KEPT.append(run)
    module = nn.Linear(1, 1)
    model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.0))
    batches = run.loader(TensorDataset(torch.zeros(8, 1)))
    said = []
    try:
        for _ in run.epochs(1):
            for (inputs,) in batches:
                model(inputs).mean().backward()
                optimizer.step()
    except StavesError as error:
        said.append(str(error))
    return said


KEPT: list[Any] = []
"""The runs, which last as long as the process."""


def main() -> None:
    result: dict[str, Any] = {name: collect(name) for name in CASES}
    result["nested"] = nested()
    result["misuse"] = misuse()
    folder = Path(sys.argv[1])
    (folder / f"rank-{KEPT[0].rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
