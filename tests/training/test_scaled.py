"""A scaled loss that overflows on one rank: void on all, and no other end of the training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import staves
from staves.errors import InputError, TrainingError
from tests.training.launch import SCRIPTS, command, staves_run
from tests.training.scripts.models import BATCH, Examples, loss_of, relative_error
from tests.training.scripts.scaled import CASES, VOID

SCRIPT = SCRIPTS / "scaled.py"
LIMITS = {
    torch.float64: 1e-11,
    torch.float32: 1e-5,
    torch.float16: 2e-2,
    torch.bfloat16: 1e-1,
}
"""Relative, after all steps: products have 53, 24, 11 and 8 bits."""


def test_the_end_is_that_of_a_run_without_scale_or_overflow(tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    undisturbed = command([SCRIPT, alone], alone)
    assert undisturbed.status == 0, undisturbed.stderr
    done = staves_run(tmp_path, SCRIPT, tmp_path, devices=2, timeout=300)
    assert done.status == 0, done.stderr
    voids = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert voids[0] == voids[1]
    ends = [torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1)]
    wanted = torch.load(alone / "0.pt")
    for name, case in CASES.items():
        error = relative_error(ends[0][name], wanted[name])
        print(f"{name}: {voids[0][name]} void, relative error {error:.1e}")
        assert error <= LIMITS[case.autocast or case.dtype], name
        assert relative_error(ends[1][name], ends[0][name]) == 0.0, name
        if case.scale < 2.0**20 or name in VOID:
            assert voids[0][name] == VOID.get(name, 1), name
        else:
            assert voids[0][name] > 1, name


@pytest.fixture
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)


class Loop:
    def __init__(self, *, prepared: bool = True) -> None:
        self.run = staves.init(batch_size=BATCH)
        module = nn.Linear(64, 10)
        sgd = torch.optim.SGD(module.parameters(), lr=0.1)
        self.model, self.optimizer = self.run.prepare(module, sgd)
        self.scaler: Any = torch.amp.GradScaler("cpu")
        if prepared:
            self.scaler = self.run.prepare(self.scaler)

    def train(self, factor: float = 1.0) -> None:
        for _ in self.run.epochs(1):
            for inputs, classes, _tags in self.run.loader(Examples(torch.float32)):
                loss = loss_of(self.model(inputs), classes) * factor
                self.run.backward(self.scaler.scale(loss))
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()


@pytest.mark.usefixtures("_no_launcher")
def test_the_loss_is_told_as_it_is_without_the_scale() -> None:
    loop = Loop()
    loop.train()
    assert 1.0 < loop.run.report()["loss"]["first"] < 5.0
    assert loop.scaler.get_scale() == 2.0**16


@pytest.mark.usefixtures("_no_launcher")
def test_gradients_that_are_never_finite_end_the_run() -> None:
    loop = Loop()
    with pytest.raises(TrainingError, match="not finite at any loss scale") as caught:
        loop.train(factor=float("nan"))
    assert "look at its loss" in str(caught.value.hint)
    assert loop.run.committed_steps == 0


@pytest.mark.usefixtures("_no_launcher")
def test_a_scaler_is_prepared() -> None:
    with pytest.raises(TrainingError, match="GradScaler that is not prepared"):
        Loop(prepared=False).train()
    loop = Loop()
    with pytest.raises(InputError, match="is prepared, not registered"):
        loop.run.register("scaler", torch.amp.GradScaler("cpu"))
    with pytest.raises(InputError, match="a second GradScaler"):
        loop.run.prepare(torch.amp.GradScaler("cpu"))
    assert loop.run.prepare(loop.scaler) is loop.scaler
