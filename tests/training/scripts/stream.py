"""Worker: what every rank is given of a stream, in many ways, in one launch.

stream.py FOLDER     writes FOLDER/rank-N.json: {case: {"epochs": [[samples of a step]]}}
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import IterableDataset

import staves

BATCH, SEED, EPOCHS = 8, 3, 3
CASES: dict[str, dict[str, Any]] = {
    "plain": {"lengths": [50, 50, 50]},
    "passes of other lengths": {"lengths": [17, 3, 32]},
    "worker": {"lengths": [50, 9, 50], "num_workers": 1, "prefetch_factor": 3},
    "drop last": {"lengths": [50, 24, 13], "drop_last": True},
    "length": {"lengths": [50, 50, 50], "length": 50, "says": 7},
}


class Shuffled(IterableDataset[tuple[int, float]]):
    """Numbers of the pass, shuffled in a small buffer, each with a random number."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths, self._epoch = lengths, 0

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __iter__(self) -> Iterator[tuple[int, float]]:
        kept: list[int] = []
        for number in range(self._lengths[self._epoch]):
            kept.append(number)
            if len(kept) > 5:
                yield self._draw(kept)
        while kept:
            yield self._draw(kept)

    def _draw(self, kept: list[int]) -> tuple[int, float]:
        number = kept.pop(random.randrange(len(kept)))
        return 1000 * self._epoch + number, float(torch.rand(()))


def lengths(case: dict[str, Any]) -> list[int]:
    return list(case["lengths"])


def rotating(step: int) -> list[int]:
    return [(7 * step) % 9, 8 - (7 * step) % 9]


def collect(name: str) -> dict[str, Any]:
    options = dict(CASES[name])
    says = options.pop("says", None)
    run = staves.init(batch_size=BATCH, seed=SEED, split=rotating)
    KEPT.append(run)
    module = nn.Linear(2, 1)
    model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.0))
    batches = run.loader(Shuffled(options.pop("lengths")), collate_fn=list, **options)
    epochs: list[list[Any]] = []
    for _ in run.epochs(EPOCHS):
        epoch: list[Any] = []
        for samples in batches:
            epoch.append(samples)
            run.backward(model(torch.tensor(samples)).mean())
            optimizer.step()
        epochs.append(epoch)
    return {
        "epochs": epochs,
        "steps": run.committed_steps,
        "length": None if says is None else len(batches),
    }


KEPT: list[Any] = []
"""The runs, which last as long as the process."""


def main() -> None:
    torch.set_num_threads(1)
    result = {name: collect(name) for name in CASES}
    folder = Path(sys.argv[1])
    (folder / f"rank-{KEPT[0].rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
