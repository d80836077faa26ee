"""Micro-batches on one process: the optimizer sees the whole batch's gradient, once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import staves
from staves.errors import TrainingError
from staves.training import permutation
from tests.training.scripts.models import (
    BATCH,
    SAMPLES,
    Examples,
    build,
    loss_of,
    relative_error,
    tag_loss,
)

F64 = torch.float64


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)


def two_steps(cap: int | None, clear: str) -> tuple[list[torch.Tensor], int]:
    """Return the parameters after two steps, and how many updates there were."""
    run = staves.init(batch_size=BATCH, max_local_batch=cap)
    module = build("mlp", F64)
    sgd = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    updates: list[int] = []
    sgd.register_step_post_hook(lambda *_: updates.append(run.committed_steps))
    model, optimizer = run.prepare(module, sgd)
    for _ in run.epochs(1):
        for inputs, classes, _tags in run.loader(Examples(F64, 2 * BATCH)):
            if clear != "optimizer after":
                {"optimizer": optimizer, "model": model}[clear].zero_grad()
            run.backward(loss_of(model(inputs), classes))
            optimizer.step()
            if clear == "optimizer after":
                optimizer.zero_grad()
    assert run.committed_steps == 2
    return [p.detach() for p in module.parameters()], len(updates)


@pytest.mark.parametrize("clear", ["optimizer", "model", "optimizer after"])
@pytest.mark.parametrize("cap", [1, 5, BATCH - 1])
def test_gradients_are_cleared_between_steps_and_not_within_one(clear: str, cap: int) -> None:
    whole, _ = two_steps(None, "optimizer")
    parts, updates = two_steps(cap, clear)
    assert relative_error(parts, whole) < 1e-14
    assert updates == 2


def test_a_schedule_moves_once_a_step() -> None:
    run = staves.init(batch_size=BATCH, max_local_batch=5)
    module = nn.Linear(64, 10)
    sgd = torch.optim.SGD(module.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(sgd, 1, 0.5)
    model, optimizer, schedule = run.prepare(module, sgd, schedule)
    rates = []
    for _ in run.epochs(1):
        for inputs, classes, _tags in run.loader(Examples(torch.float32)):
            run.backward(loss_of(model(inputs), classes))
            optimizer.step()
            schedule.step()
            if run.boundary:
                rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0.5, 0.25, 0.125, 0.0625, 0.03125]
    assert schedule.get_last_lr() == [0.03125]


@pytest.mark.filterwarnings("ignore:Detected call")  # torch's own sign of the same mistake
@pytest.mark.parametrize("over", ["inner", "prepared"])
def test_a_schedule_that_is_not_prepared_is_told_and_refused_within_a_step(
    over: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = staves.init(batch_size=BATCH, max_local_batch=5)
    module = nn.Linear(64, 10)
    sgd = torch.optim.SGD(module.parameters(), lr=1.0)
    model, optimizer = run.prepare(module, sgd)
    schedule = torch.optim.lr_scheduler.StepLR(sgd if over == "inner" else optimizer, 1, 0.5)

    def train() -> None:
        for _ in run.epochs(1):
            for inputs, classes, _tags in run.loader(Examples(torch.float32)):
                run.backward(loss_of(model(inputs), classes))
                optimizer.step()
                schedule.step()

    with pytest.raises(TrainingError, match="changed between two micro-batches"):
        train()
    assert "schedule is not prepared" in capsys.readouterr().err


@pytest.mark.parametrize("over", ["inner", "prepared"])
def test_no_warning_where_schedules_are_prepared(
    over: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = staves.init(batch_size=BATCH)
    module = nn.Linear(64, 10)
    sgd = torch.optim.SGD(module.parameters(), lr=1.0)
    model, optimizer = run.prepare(module, sgd)
    about = sgd if over == "inner" else optimizer
    schedule = run.prepare(torch.optim.lr_scheduler.CosineAnnealingLR(about, 5))
    for _ in run.epochs(1):
        for inputs, classes, _tags in run.loader(Examples(torch.float32)):
            run.backward(loss_of(model(inputs), classes))
            optimizer.step()
            schedule.step()
    assert "not prepared" not in capsys.readouterr().err


def weighted_gradient(cap: int | None, data: Examples) -> Any:
    run = staves.init(batch_size=BATCH, max_local_batch=cap)
    model = build("tagger", F64)
    model, optimizer = run.prepare(model, torch.optim.SGD(model.parameters(), lr=0.0))
    for _ in run.epochs(1):
        for inputs, _classes, tags in run.loader(data):
            optimizer.zero_grad()
            run.backward(tag_loss(model(inputs), tags), weight=int((tags >= 0).sum()))
            optimizer.step()
            if run.boundary:
                break
    return [p.grad for p in model.parameters()]


# The micro-batches of cap 8 are samples 0-7, 8-15, 16-23 and 24-31 of the batch.
@pytest.mark.parametrize("masked", [(0, 0), (0, 8), (8, 16), (24, 32), (8, 32)])
@pytest.mark.parametrize("cap", [None, 5, 8])
def test_weights_are_those_of_tokens(cap: int | None, masked: tuple[int, int]) -> None:
    """A part without any token has a mean over nothing, nan, and must not count."""
    data = Examples(F64)
    data.tags[torch.from_numpy(permutation(0, 0, SAMPLES)[slice(*masked)])] = -100
    first = torch.from_numpy(permutation(0, 0, SAMPLES)[:BATCH])
    model = build("tagger", F64)
    loss = tag_loss(model(data.inputs[first]), data.tags[first])
    wanted = torch.autograd.grad(loss, list(model.parameters()))
    assert relative_error(weighted_gradient(cap, data), wanted) < 1e-14


def test_a_batch_without_any_weight_is_refused() -> None:
    data = Examples(F64)
    data.tags[:] = -100
    with pytest.raises(TrainingError, match="sum to 0"):
        weighted_gradient(None, data)
