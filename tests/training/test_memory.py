"""Caps: what a failure and what measured peaks say of the samples that a device can hold."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import staves
from staves.errors import TrainingError
from staves.training._memory import (
    MARGIN,
    REACH,
    LocalMemory,
    first_samples,
    fitted_cap,
    lowered,
    repeated,
)
from tests.training.scripts.models import BATCH, Examples, build, loss_of, relative_error


@given(st.integers(2, 10_000))
def test_a_cap_falls_until_a_single_sample_is_left(samples: int) -> None:
    caps = [samples]
    while caps[-1] > 1:
        caps.append(lowered(caps[-1]))
        assert 1 <= caps[-1] < caps[-2]
        assert caps[-1] >= caps[-2] * 3 // 4 - 1
    with pytest.raises(TrainingError, match="single sample") as caught:
        lowered(caps[-1])
    assert "too large for this device" in str(caught.value.hint)


@given(
    st.integers(0, 10**9),
    st.integers(1, 10**7),
    st.lists(st.integers(1, 500), min_size=2, max_size=6, unique=True),
    st.integers(1, 10**11),
)
def test_the_fitted_cap_is_the_largest_that_keeps_the_margin(
    fixed: int, per_sample: int, batches: list[int], limit: int
) -> None:
    cap = fitted_cap([(b, fixed + per_sample * b) for b in batches], limit)
    assert cap is not None
    largest = max(batches)
    assert largest <= cap <= REACH * largest
    slack = 1e-6 * (fixed + per_sample * cap)  # of the fit's own arithmetic
    if cap > largest:
        assert fixed + per_sample * cap <= MARGIN * limit + slack
    if cap < int(REACH * largest):
        assert fixed + per_sample * (cap + 1) > MARGIN * limit - slack


def test_a_peak_above_the_line_raises_it() -> None:
    peaks = [(10, 1000), (20, 1900), (30, 3100), (40, 4000)]  # bytes
    cap = fitted_cap(peaks, limit=int(5000 / MARGIN) + 1)
    straight = fitted_cap([(b, 100 * b) for b, _ in peaks], limit=int(5000 / MARGIN) + 1)
    assert (cap, straight) == (48, 50)


@pytest.mark.parametrize("peaks", [[], [(8, 100)], [(8, 100), (8, 120)], [(4, 100), (8, 90)]])
def test_peaks_that_tell_nothing(peaks: list[tuple[int, int]]) -> None:
    assert fitted_cap(peaks, 1000) is None


def test_on_the_cpu_only_failures_lower_the_cap() -> None:
    memory = LocalMemory(torch.device("cpu"), None)
    memory.step_done(8)
    memory.step_done(16)
    assert memory.cap is None
    assert memory.ran_out(16) == 12
    assert memory.cap == 12


class Pair(NamedTuple):
    first: Any
    second: Any


def test_a_stand_in_has_the_form_of_the_whole() -> None:
    batch = {"x": torch.arange(7), "pair": Pair(torch.ones(7, 2), "name"), "mask": torch.ones(3)}
    part = first_samples(batch, 7, 3)
    assert part["x"].tolist() == [0, 1, 2]
    assert isinstance(part["pair"], Pair)
    assert part["pair"].first.shape == (3, 2)
    assert part["mask"].shape == (3,)
    whole = repeated([part["x"], torch.tensor(1.0)], 3, 7)
    assert whole[0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert whole[1].shape == ()


@pytest.fixture
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)


class Hungry(nn.Module):
    def __init__(self, limit: int) -> None:
        super().__init__()
        self.body, self.limit = build("mlp", torch.float64), limit

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if len(inputs) > self.limit:
            raise torch.OutOfMemoryError("out of memory")
        outputs: torch.Tensor = self.body(inputs)
        return outputs


def alone(limit: int) -> tuple[list[torch.Tensor], staves.training.Run]:
    run = staves.init(batch_size=BATCH)
    module = Hungry(limit)
    model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.1))
    for _ in run.epochs(1):
        for inputs, classes, _tags in run.loader(Examples(torch.float64)):
            optimizer.zero_grad()
            run.backward(loss_of(model(inputs), classes))
            optimizer.step()
    return [p.detach() for p in module.parameters()], run


@pytest.mark.usefixtures("_no_launcher")
def test_one_process_goes_on_in_smaller_parts() -> None:
    whole, _ = alone(BATCH)
    parts, run = alone(5)
    assert relative_error(parts, whole) < 1e-14
    assert run.plan.micro_steps == 8  # 32, 16, 10 and 6 at once ran out; caps were 24, 12, 7, 4
    assert run.committed_steps == 5


@pytest.mark.usefixtures("_no_launcher")
def test_a_model_that_fits_nowhere_is_an_error() -> None:
    with pytest.raises(TrainingError, match="out of memory with a single sample"):
        alone(0)


@pytest.mark.usefixtures("_no_launcher")
def test_an_evaluation_that_runs_out_is_the_scripts_own_error() -> None:
    run = staves.init(batch_size=BATCH)
    module = Hungry(4)
    model = run.prepare(module)
    model.eval()
    with pytest.raises(torch.OutOfMemoryError):
        model(Examples(torch.float64).inputs)
