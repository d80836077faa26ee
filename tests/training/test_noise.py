"""Norms taken while training, against norms of gradients computed one by one."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

import staves
from staves.convergence import NoiseScale, noise_scale
from staves.training import permutation
from staves.training._noise import RENEW, SPARSE, GradientNorms, Measured, _square
from staves.training._preconditioner import FLOOR, Preconditioner
from tests.training.scripts.models import BATCH, SAMPLES, Examples, build, loss_of, tag_loss

F64 = torch.float64


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)


def run_steps(
    kind: str, optimizer: Any, cap: int | None, *, max_batch: int = BATCH
) -> tuple[list[NoiseScale], list[nn.Module], list[Any]]:
    """Train; return what was measured, and the model and moments before every step."""
    run = staves.init(batch_size=staves.Adaptive(BATCH, max=max_batch), max_local_batch=cap)
    module = build(kind, F64)
    own = optimizer(module.parameters())
    model, prepared = run.prepare(module, own)
    measured: list[NoiseScale] = []
    norms = run._session.stepper.norms
    assert norms is not None
    take = norms.take

    def noted(interrupted: Any) -> Measured | None:
        each = take(interrupted)
        if each is not None:
            measured.append(each.noise_scale)
        return each

    norms.take = noted  # type: ignore[method-assign]
    before, moments = [copy.deepcopy(module)], [[own.state[p] for p in module.parameters()]]
    for _ in run.epochs(3):
        for inputs, classes, tags in run.loader(Examples(F64)):
            prepared.zero_grad()
            if kind == "tagger":
                run.backward(tag_loss(model(inputs), tags), weight=int((tags >= 0).sum()))
            else:
                run.backward(loss_of(model(inputs), classes))
            prepared.step()
            if run.boundary:
                before.append(copy.deepcopy(module))
                states = [own.state.get(p, {}) for p in module.parameters()]
                moments.append([copy.deepcopy(s) for s in states])
        break
    return measured, before, moments


def gradient(module: nn.Module, kind: str, places: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return the mean gradient of these samples, flat, and their weight."""
    data = Examples(F64)
    outputs, tags = module(data.inputs[places]), data.tags[places]
    loss = tag_loss(outputs, tags) if kind == "tagger" else loss_of(outputs, data.classes[places])
    parts = torch.autograd.grad(loss, list(module.parameters()))
    weight = float((tags >= 0).sum()) if kind == "tagger" else float(len(places))
    return torch.cat([part.flatten() for part in parts]), weight


def expected(module: nn.Module, kind: str, start: int, micro_steps: int) -> NoiseScale:
    order = torch.from_numpy(permutation(0, 0, SAMPLES))
    places = order[start : start + BATCH]
    b = len(places)
    edges = [b * m // micro_steps for m in range(micro_steps + 1)]
    groups = [gradient(module, kind, places[first:stop]) for first, stop in pairwise(edges)]
    total = sum(weight for _, weight in groups)
    mean = sum((g * (weight / total) for g, weight in groups), torch.zeros(()))
    squares = sum(weight * b / total * float(g @ g) for g, weight in groups)
    return noise_scale.from_sums(squares, micro_steps, b, float(mean @ mean))


@pytest.mark.parametrize("kind", ["mlp", "tagger"])
@pytest.mark.parametrize(("cap", "micro_steps"), [(None, 2), (16, 2), (5, 7)])
def test_micro_batches_are_groups(kind: str, cap: int | None, micro_steps: int) -> None:
    """A process alone has two micro-batches at least; tokens are weights."""
    measured, before, _ = run_steps(kind, lambda p: torch.optim.SGD(p, lr=0.1), cap)
    assert len(measured) == SAMPLES // BATCH
    for step, got in enumerate(measured):
        wanted = expected(before[step], kind, step * BATCH, micro_steps)
        assert got.noise == pytest.approx(wanted.noise, rel=1e-9)
        assert got.gradient_square == pytest.approx(wanted.gradient_square, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RMSprop", "Adagrad"])
def test_the_preconditioner_is_that_of_the_optimizer(name: str) -> None:
    """d = 1 / (sqrt(v) + 0.3 rms(sqrt(v))), v free of its bias: known for constant gradients."""
    parameter = nn.Parameter(torch.tensor([1.0, -2.0, 5.0]))
    optimizer: Any = getattr(torch.optim, name)([parameter], lr=0.0)
    preconditioner = Preconditioner([optimizer])
    preconditioner.renew()
    assert not preconditioner.active
    assert preconditioner.of_parameter(parameter) is None
    g = torch.tensor([3.0, 0.0, -4.0])
    for _ in range(7):
        parameter.grad = g.clone()
        optimizer.step()
    preconditioner.renew()
    assert preconditioner.active
    wanted = 1 / (g.abs() + FLOOR * (25 / 3) ** 0.5)
    assert preconditioner.of_parameter(parameter) == pytest.approx(wanted, rel=1e-5)


def test_a_parameter_without_gradients_scales_nothing_to_infinity() -> None:
    parameter = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([parameter])
    parameter.grad = torch.zeros(3)
    optimizer.step()
    preconditioner = Preconditioner([optimizer])
    preconditioner.renew()
    assert preconditioner.of_parameter(parameter) == pytest.approx(torch.zeros(3))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_squares(dtype: torch.dtype, scaled: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(300, 700, generator=generator).to(dtype)
    scale = torch.rand(300, 700, generator=generator) if scaled else None
    for each, own in ((values, scale), (values.t(), None if scale is None else scale.t())):
        wanted = float((each.double() * (1.0 if own is None else own.double())).square().sum())
        assert float(_square(each, own)) == pytest.approx(wanted, rel=1e-5)


class Linear:
    """A step of the norms over one parameter, alone, whose gradients the test gives."""

    def __init__(self, optimizer: Any = None) -> None:
        self.module = nn.Linear(3, 1, bias=False)
        made = (optimizer or (lambda p: torch.optim.SGD(p, lr=0.0)))(self.module.parameters())
        self.optimizer: torch.optim.Optimizer = made
        self.norms = GradientNorms([made], torch.device("cpu"))

    def step(self, number: int, *gradients: list[float], sparse: bool = False) -> None:
        self.norms.begin(self.module, step=number, micro_steps=len(gradients), sparse=sparse)
        self.module.weight.grad = None
        for each in gradients:
            self.norms.group(1.0, float(len(gradients)))
            loss = (self.module.weight * torch.tensor([each])).sum() / len(gradients)
            loss.backward()  # type: ignore[no-untyped-call]
        self.norms.reduce(
            self.module, batch=len(gradients), weight=float(len(gradients)), group=None
        )

    def take(self) -> Measured | None:
        return self.norms.take(lambda: False)


def test_steps_are_read_one_later() -> None:
    linear = Linear()
    linear.step(0, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    assert linear.take() is None
    linear.step(1, [3.0, 0.0, 0.0], [3.0, 0.0, 0.0])
    first = linear.take()
    assert first is not None
    assert first.noise_scale == noise_scale.estimate([1, 1], [1.0, 1.0], 0.5)
    linear.step(2, [1.0, 1.0, 0.0], [1.0, 1.0, 0.0])
    second = linear.take()
    assert second is not None
    assert second.noise_scale == NoiseScale(9.0, 0.0)


def test_once_known_well_norms_are_taken_now_and_then() -> None:
    linear, read = Linear(), []
    known = 3 * SPARSE
    for number in range(known - 3, known + 4 * SPARSE):
        gradient = [float(number), 0.0, 0.0]
        linear.step(number, gradient, gradient, sparse=number >= known)
        measured = linear.take()
        if measured is not None:
            read.append(round(measured.noise_scale.gradient_square**0.5))
    first = [known - 3, known - 2, known - 1]
    assert read == [*first, *range(known, known + 3 * SPARSE, SPARSE)]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_gradients_that_are_not_finite_tell_nothing(bad: float) -> None:
    linear = Linear()
    linear.step(0, [bad, 0.0, 0.0], [0.0, 1.0, 0.0])
    linear.step(1, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    assert linear.take() is None
    linear.step(2, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    assert linear.take() is not None


def test_one_group_tells_nothing() -> None:
    linear = Linear()
    linear.step(0, [1.0, 0.0, 0.0])
    linear.step(1, [1.0, 0.0, 0.0])
    assert linear.take() is None


def test_the_scale_of_a_loss_is_taken_out() -> None:
    linear = Linear()
    linear.norms.loss_scale = 4.0
    linear.step(0, [4.0, 0.0, 0.0], [0.0, 4.0, 0.0])
    linear.step(1, [4.0, 0.0, 0.0], [0.0, 4.0, 0.0])
    measured = linear.take()
    assert measured is not None
    assert measured.noise_scale == noise_scale.estimate([1, 1], [1.0, 1.0], 0.5)


def test_norms_are_preconditioned_from_the_first_renewal_on() -> None:
    linear = Linear(lambda p: torch.optim.Adam(p, lr=0.0))
    seen = []
    for number in range(2 * RENEW):
        linear.step(number, [1.0, 2.0, 0.0], [1.0, 2.0, 4.0])
        linear.optimizer.step()
        measured = linear.take()
        if measured is not None:
            seen.append(measured)
    assert [m.preconditioned for m in seen] == [False] * RENEW + [True] * (RENEW - 1)
    root = torch.tensor([1.0, 2.0, 2.0])
    below = root + FLOOR * root.square().mean().sqrt()
    norms = [float((torch.tensor(g) / below).square().sum()) for g in ([1.0, 2, 0], [1.0, 2, 4])]
    whole = float((root / below).square().sum())
    wanted = noise_scale.estimate([1, 1], norms, whole)
    assert seen[-1].noise_scale.noise == pytest.approx(wanted.noise, rel=1e-4)
    assert seen[-1].noise_scale.gradient_square == pytest.approx(wanted.gradient_square, rel=1e-4)


def test_a_void_step_is_measured_when_it_comes_again() -> None:
    linear = Linear()
    linear.step(0, [9.0, 0.0, 0.0], [0.0, 9.0, 0.0])
    linear.step(0, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    assert linear.take() is None
    linear.step(1, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    measured = linear.take()
    assert measured is not None
    assert measured.noise_scale == noise_scale.estimate([1, 1], [1.0, 1.0], 0.5)


def test_what_is_dropped_is_forgotten() -> None:
    linear = Linear()
    linear.step(0, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    assert len(linear.norms.drop()) == 1
    linear.step(1, [3.0, 0.0, 0.0], [3.0, 0.0, 0.0])
    assert linear.take() is None


def test_a_broken_generation_waits_for_nothing() -> None:
    class Never:
        def is_completed(self) -> bool:
            return False

    linear = Linear()
    for number in (0, 1):
        linear.step(number, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    pending = linear.norms._pending[0]
    object.__setattr__(pending, "work", Never())
    assert linear.norms.take(lambda: True) is None
    assert linear.norms.drop() == []
