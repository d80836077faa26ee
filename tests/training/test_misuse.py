"""What is refused, with which class of error and which advice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import staves
from staves.errors import InputError, TrainingError
from staves.training._environment import Environment
from staves.training._loader import place_on

DATA = TensorDataset(torch.arange(20.0)[:, None])


class Unsized:
    def __getitem__(self, index: int) -> int:
        return index


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)


class Loop:
    """A run with all that a script has."""

    def __init__(self, **options: Any) -> None:
        self.run = staves.init(batch_size=4, **options)
        module = nn.Linear(1, 1)
        self.sgd = torch.optim.SGD(module.parameters(), lr=0.01)
        self.model, self.optimizer = self.run.prepare(module, self.sgd)
        self.batches = self.run.loader(DATA)

    def train(self, body: Callable[[Loop, torch.Tensor], None], epochs: int = 1) -> None:
        for _ in self.run.epochs(epochs):
            for (inputs,) in self.batches:
                body(self, self.model(inputs).mean())


def good(loop: Loop, loss: torch.Tensor) -> None:
    loop.optimizer.zero_grad()
    loop.run.backward(loss)
    loop.optimizer.step()


def plain_backward(loop: Loop, loss: torch.Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]
    loop.optimizer.step()


def plain_backward_without_step(loop: Loop, loss: torch.Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def backward_twice(loop: Loop, loss: torch.Tensor) -> None:
    loop.run.backward(loss)
    loop.run.backward(loss)


def loss_of_a_number(loop: Loop, loss: torch.Tensor) -> None:
    loop.run.backward(loss.item())  # type: ignore[arg-type]


def loss_of_each_sample(loop: Loop, loss: torch.Tensor) -> None:
    loop.run.backward(torch.stack([loss, loss]))


def no_step(loop: Loop, loss: torch.Tensor) -> None:
    loop.run.backward(loss)


def step_of_the_unprepared(loop: Loop, loss: torch.Tensor) -> None:
    loop.run.backward(loss)
    loop.sgd.step()


def closure(loop: Loop, loss: torch.Tensor) -> None:
    loop.run.backward(loss)
    loop.optimizer.step(lambda: loss)


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        (plain_backward, "without run.backward", "instead of loss.backward()"),
        (plain_backward_without_step, "without run.backward", "instead of loss.backward()"),
        (backward_twice, "called twice", "add the losses"),
        (no_step, "optimizer.step() was not called", "run.prepare returned"),
        (step_of_the_unprepared, "optimizer.step() was not called", "run.prepare returned"),
        (closure, "closure", "run.backward(loss)"),
        (loss_of_a_number, "the loss is a float", "criterion"),
        (loss_of_each_sample, "the loss is of shape (2,)", "mean over"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_wrong_loops(body: Callable[[Loop, torch.Tensor], None], message: str, hint: str) -> None:
    loop = Loop()
    with pytest.raises(TrainingError) as caught:
        loop.train(body)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)
    assert caught.value.exit_code == 1
    assert loop.run.committed_steps == 0


def test_figures_may_be_asked_for_with_a_batch_in_hand() -> None:
    """A pass that is broken off has fetched a batch and not used it; it counts for nothing."""
    loop, told = Loop(), []
    for _ in loop.run.epochs(3):
        for place, (inputs,) in enumerate(loop.batches):
            if place >= 2:
                break
            good(loop, loop.model(inputs).mean())
            loop.run.log(inside=1.0)
        loop.run.log(accuracy=1.0)
        told.append(loop.run.report()["steps"])
    assert told == [2, 4, 6]
    assert loop.run.committed_steps == 6
    assert loop.batches.cursor.epoch == 3


@pytest.mark.parametrize("size", [4, staves.Adaptive(4)], ids=str)
def test_figures_in_the_middle_of_a_step_leave_it_alone(size: Any) -> None:
    run = staves.init(batch_size=size)
    module = nn.Linear(1, 1)
    model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.01))
    updates = 0
    for _ in run.epochs(1):
        for (inputs,) in run.loader(DATA):
            before, steps = module.bias.item(), run.committed_steps
            run.log(start=0.0)
            run.backward(model(inputs).mean())
            assert run.report()["steps"] == steps
            whole = run.boundary
            optimizer.step()
            updates += whole
            assert (module.bias.item() != before) == whole
            optimizer.zero_grad()
    assert run.committed_steps == updates == 5


def test_the_loader_belongs_inside_of_epochs() -> None:
    loop = Loop()
    with pytest.raises(TrainingError, match="outside of run\\.epochs") as caught:
        next(iter(loop.batches))
    assert "for epoch in run.epochs(n)" in str(caught.value.hint)
    loop.train(good)
    with pytest.raises(TrainingError, match="outside of run\\.epochs"):
        next(iter(loop.batches))
    assert loop.run.committed_steps == 5


def test_backward_belongs_inside_of_the_loop() -> None:
    loop = Loop()
    with pytest.raises(TrainingError, match="outside of the loop over the prepared loader"):
        loop.run.backward(loop.model(torch.ones(1, 1)).mean())


def test_what_prepare_takes() -> None:
    loop = Loop()
    with pytest.raises(InputError, match="a second model") as caught:
        loop.run.prepare(nn.Linear(1, 1))
    assert "one nn.Module" in str(caught.value.hint)
    with pytest.raises(InputError, match="a DataLoader is no model") as caught:
        loop.run.prepare(DataLoader(DATA))
    assert "data goes to run.loader" in str(caught.value.hint)
    assert loop.run.prepare(None, loop.model) == (None, loop.model)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(loop.sgd)
    assert loop.run.prepare(plateau).schedule is plateau
    loop.train(good)


@pytest.mark.parametrize(
    ("dataset", "options", "message", "hint"),
    [
        (DATA, {"batch_size": 4}, "batch_size cannot be given", "staves.init(batch_size=...)"),
        (DATA, {"sampler": [1]}, "sampler cannot be given", "every sample once"),
        (DATA, {"batch_sampler": [[1]]}, "batch_sampler cannot be given", "every sample once"),
        (Unsized(), {}, "without length", "IterableDataset"),
        (TensorDataset(torch.ones(0, 1)), {}, "is empty", "check its path"),
        (TensorDataset(torch.ones(3, 1)), {"drop_last": True}, "leaves nothing of 3", "no larger"),
    ],
)
def test_what_the_loader_refuses(
    dataset: Any, options: dict[str, Any], message: str, hint: str
) -> None:
    run = staves.init(batch_size=4)
    with pytest.raises(InputError) as caught:
        run.loader(dataset, **options)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)
    assert len(run.loader(DATA, batch_size=None, sampler=None)) == 5


def test_a_batch_of_the_launcher_may_leave_nothing_of_the_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = Environment(batch=100)
    monkeypatch.setattr(Environment, "read", lambda: environment)
    for reference in (4, 21):
        run = staves.init(batch_size=staves.Adaptive(reference))
        with pytest.raises(InputError, match="leaves nothing of 20 samples at batch 100"):
            run.loader(DATA, drop_last=True)
    environment = Environment(batch=4)
    run = staves.init(batch_size=staves.Adaptive(21))
    with pytest.raises(InputError, match="leaves nothing of 20 samples at batch 21"):
        run.loader(DATA, drop_last=True)


@pytest.mark.parametrize("size", [4, staves.Adaptive(4)], ids=str)
def test_a_pass_without_a_step_is_refused(size: Any) -> None:
    """Whatever the cause: with progress as the measure such passes would never end."""
    run = staves.init(batch_size=size)
    batches = run.loader(DATA, drop_last=True)
    passes = run.epochs(2)
    assert next(passes) == 0
    batches.cursor.length = 3
    with pytest.raises(InputError, match="no batch of 4 samples") as caught:
        next(iter(batches))
    assert caught.value.exit_code == 2


def test_a_second_loader_is_refused() -> None:
    loop = Loop()
    with pytest.raises(InputError, match="its training loader already") as caught:
        loop.run.loader(DATA)
    assert "ordinary DataLoader" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, r"init\(batch_size\): 0 is not a positive integer"),
        ({"batch_size": 2.5}, "2.5 is not a positive integer"),
        ({"batch_size": True}, "True is not a positive integer"),
        ({"batch_size": 4, "seed": "x"}, r"init\(seed\): 'x' is not an integer"),
        ({"batch_size": 4, "max_local_batch": 0}, r"max_local_batch\): 0"),
        ({"batch_size": 4, "split": "best"}, "'best' is no split"),
        ({"batch_size": 4, "split": [2, 2]}, "2 local batches for 1 devices"),
        ({"batch_size": 4, "split": [3]}, "sums to 3, the batch is 4"),
    ],
)
def test_what_init_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        staves.init(**options)


def test_a_function_of_wrong_splits_is_refused_when_it_gives_one() -> None:
    loop = Loop(split=lambda step: [4] if step < 2 else [3])
    with pytest.raises(InputError, match="sums to 3, the batch is 4"):
        loop.train(good)
    assert loop.run.committed_steps == 2


@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_epochs_are_counted(count: Any) -> None:
    with pytest.raises(InputError, match="is not a positive integer"):
        next(staves.init(batch_size=4).epochs(count))


class Pair(NamedTuple):
    first: Any
    second: Any


def test_nested_batches_keep_their_form_on_the_way_to_a_device() -> None:
    one = torch.ones(2)
    batch = {"x": one, "pair": Pair(one, "name"), "both": (one, [one, None])}
    assert place_on(torch.device("cpu"))(batch) is batch
    moved = place_on(torch.device("meta"))(batch)
    assert moved["x"].device.type == "meta"
    assert isinstance(moved["pair"], Pair)
    assert moved["pair"].first.device.type == "meta"
    assert moved["pair"].second == "name"
    assert moved["both"][0].device.type == "meta"
    assert moved["both"][1][0].device.type == "meta"
    assert moved["both"][1][1] is None
