"""Several passes of `run.epochs` over one loader, and loops that are left early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import staves
from staves.training import permutation

LENGTH = 20
DATA = TensorDataset(torch.arange(float(LENGTH))[:, None])


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_STORE"):
        monkeypatch.delenv(name, raising=False)


class Recorder:
    """A run that writes down which samples it is given, by epoch."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.run = staves.init(batch_size=4)
        module = nn.Linear(1, 1)
        sgd = torch.optim.SGD(module.parameters(), lr=0.0)
        self.model, self.optimizer = self.run.prepare(module, sgd)
        self.batches = self.run.loader(DATA, **options)
        self.epochs: list[list[int]] = []

    def train(self, count: int, leave: Callable[[int], bool] = lambda steps: False) -> None:
        """Train; where `leave(steps of this epoch)` says so, break out of both loops."""
        for _ in self.run.epochs(count):
            self.epochs.append([])
            left = False
            for (inputs,) in self.batches:
                self.run.backward(self.model(inputs).mean())
                self.optimizer.step()
                self.epochs[-1] += inputs.flatten().int().tolist()
                left = leave(len(self.epochs[-1]) // 4)
                if left:
                    break
            if left:
                break


LOADERS: list[dict[str, Any]] = [{}, {"num_workers": 1}]


def orders(count: int) -> list[list[int]]:
    return [permutation(0, epoch, LENGTH).tolist() for epoch in range(count)]


@pytest.mark.parametrize("options", LOADERS, ids=len)
def test_a_second_phase_goes_on_where_the_first_one_ended(options: dict[str, Any]) -> None:
    recorder = Recorder(options)
    for count in (1, 2, 1):
        recorder.train(count)
    assert recorder.epochs == orders(4)
    assert recorder.run.committed_steps == 20
    assert recorder.run.report()["epochs"] == 4


@pytest.mark.parametrize("options", LOADERS, ids=len)
@pytest.mark.parametrize("steps", [2, 5])
def test_a_phase_that_was_left_counts_as_a_pass(options: dict[str, Any], steps: int) -> None:
    recorder = Recorder(options)
    recorder.train(3, leave=lambda done: done == steps)
    recorder.train(2)
    first, *rest = orders(3)
    assert recorder.epochs == [first[: 4 * steps], *rest]
