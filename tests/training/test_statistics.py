"""BatchNorm's running statistics: those of all ranks' samples, whichever rank is asked."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch._C._distributed_c10d import HashStore

from staves.training import apportion
from staves.training._exchange import Exchange
from staves.training._loader import Loader
from staves.training._state import TrainingState
from staves.training._statistics import EVERY, RunningStatistics, Statistics, combine
from tests.training.launch import SCRIPTS, staves_run
from tests.training.scripts.statistics import BATCH, EPOCHS, MOMENTUM, SPLIT, data


def of(samples: np.ndarray, step: int = 5, averaged: int = 0) -> Statistics:
    """Return the statistics of a rank that has seen just these samples, shape (n, features)."""
    features = samples.shape[1]
    empty = len(samples) == 0
    return Statistics(
        step,
        averaged,
        len(samples),
        torch.from_numpy(np.full(features, np.nan) if empty else samples.mean(0)),
        torch.from_numpy(np.full(features, np.nan) if empty else samples.var(0)),
        torch.tensor([float(step)]),
    )


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any), st.integers(0, 2**32))
def test_together_they_are_those_of_the_union(counts: list[int], seed: int) -> None:
    """The law of total variance, against numpy over all samples; ranks without any say nothing."""
    random = np.random.default_rng(seed)
    parts = [random.normal(random.normal(0, 5), random.uniform(0.1, 3), (n, 3)) for n in counts]
    whole = combine([of(part) for part in parts])
    assert whole is not None
    union = np.concatenate(parts)
    np.testing.assert_allclose(whole.mean, union.mean(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(whole.variance, union.var(0), rtol=1e-9, atol=1e-9)


def test_without_samples_nothing_changes() -> None:
    assert combine([of(np.zeros((0, 2))), of(np.zeros((0, 2)))]) is None


def test_an_average_that_a_loss_cut_in_two_is_finished() -> None:
    """One rank had taken it over when another was lost; the rest take what that one has."""
    random = np.random.default_rng(0)
    done = of(random.normal(size=(0, 2)) + 1, step=8, averaged=8)
    late, newcomer = of(random.normal(size=(9, 2)), step=8), of(np.zeros((0, 2)), step=0)
    assert combine([late, newcomer, done]) is done
    behind = of(random.normal(size=(9, 2)), step=7, averaged=7)
    assert combine([behind, late]) is not behind


class Norms(nn.Module):
    def __init__(self, momentum: float | None = 0.1) -> None:
        super().__init__()
        self.first = nn.BatchNorm1d(3, momentum=momentum)
        self.stateless = nn.BatchNorm1d(3, track_running_stats=False)
        self.second = nn.Sequential(nn.BatchNorm2d(2, momentum=momentum))


def members(modules: list[nn.Module]) -> tuple[list[RunningStatistics], list[Exchange]]:
    store = HashStore()
    exchanges = [
        Exchange(store, generation=1, rank=r, world_size=len(modules), interrupted=lambda: False)
        for r in range(len(modules))
    ]
    return [RunningStatistics(TrainingState(model=module)) for module in modules], exchanges


def average(ranks: list[RunningStatistics], exchanges: list[Exchange], step: int) -> None:
    threads = [
        threading.Thread(target=rank.average, args=(exchange, step))
        for rank, exchange in zip(ranks, exchanges, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_every_layer_of_every_rank_has_them() -> None:
    modules = [Norms(momentum=None).double() for _ in range(3)]
    ranks, exchanges = members(list(modules))
    random = torch.Generator().manual_seed(1)
    counts = (12, 4, 0)
    seen = [torch.randn(n, 3, generator=random, dtype=torch.float64) + n for n in counts]
    for rank, module, inputs in zip(ranks, modules, seen, strict=True):
        if len(inputs):
            module.first(inputs)
            module.second(inputs[:, :2, None, None])
        rank.trained(len(inputs))
    average(ranks, exchanges, step=1)
    mean = torch.cat(seen).mean(0)
    variances = torch.stack([part.var(0) for part in seen[:2]])
    means = torch.stack([part.mean(0) for part in seen[:2]])
    shares = torch.tensor([[0.75], [0.25]], dtype=torch.float64)
    variance = (shares * (variances + (means - mean) ** 2)).sum(0)
    for module in modules:
        assert torch.allclose(module.first.running_mean, mean)  # type: ignore[arg-type]
        assert torch.allclose(module.first.running_var, variance)  # type: ignore[arg-type]
        layer = module.second[0]
        assert torch.allclose(layer.running_mean, mean[:2])  # type: ignore[arg-type]
        assert torch.allclose(layer.running_var, variance[:2])  # type: ignore[arg-type]
        assert layer.num_batches_tracked == 1
    before = [copy.deepcopy(module.state_dict()) for module in modules]
    average(ranks, exchanges, step=2)  # nothing was trained since
    for module, state in zip(modules, before, strict=True):
        assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())


def test_when_it_is_due() -> None:
    rank = RunningStatistics(TrainingState(model=Norms()))

    def due(step: int, *, ended: bool) -> bool:
        return rank.due(step, cast("Loader", SimpleNamespace(unfinished=lambda: not ended)))

    assert not due(0, ended=True)
    assert due(7, ended=True)
    assert not due(7, ended=False)
    assert due(EVERY, ended=False)
    assert not rank.may_save(7, 2)
    assert rank.may_save(7, 1)
    rank.average(None, 7)
    assert not due(7, ended=True)  # once, though all ranks pass two boundaries there
    assert rank.may_save(7, 2)


@pytest.mark.parametrize(
    "model", [None, nn.Linear(1, 1), nn.BatchNorm1d(3, track_running_stats=False)]
)
def test_a_model_without_them_is_left_alone(model: nn.Module | None) -> None:
    rank = RunningStatistics(TrainingState(model=model))
    assert not rank.due(EVERY, None)
    assert rank.may_save(3, 2)


def test_two_processes_end_with_the_same(tmp_path: Path) -> None:
    """Each epoch's end, against numpy; and the checkpoint that rank 0 saves."""
    options = ("--json", "--checkpoint", tmp_path / "kept", "--every", "1s")
    script = SCRIPTS / "statistics.py"
    done = staves_run(tmp_path, script, tmp_path, devices=2, options=options)
    assert done.status == 0, done.stderr
    ranks = [torch.load(tmp_path / f"rank-{rank}.pt") for rank in (0, 1)]
    mean, variance = np.zeros(3), np.ones(3)
    samples = data().numpy()
    for epoch in range(EPOCHS):
        m, v = [mean.copy(), mean.copy()], [variance.copy(), variance.copy()]
        trained = [0, 0]
        for start in range(0, len(samples), BATCH):
            batch = samples[start : start + BATCH]
            local = apportion(SPLIT, len(batch))
            for r, own in enumerate((batch[: local[0]], batch[local[0] :])):
                m[r] = (1 - MOMENTUM) * m[r] + MOMENTUM * own.mean(0)
                v[r] = (1 - MOMENTUM) * v[r] + MOMENTUM * own.var(0, ddof=1)
                trained[r] += len(own)
        share = np.array(trained) / sum(trained)
        mean = share @ np.stack(m)
        variance = share @ (np.stack(v) + (np.stack(m) - mean) ** 2)
        for rank in ranks:
            np.testing.assert_allclose(rank["epochs"][epoch]["mean"], mean, rtol=1e-9)
            np.testing.assert_allclose(rank["epochs"][epoch]["variance"], variance, rtol=1e-9)
    newest = max((tmp_path / "kept").glob("step-*"))
    saved = torch.load(newest / "state.pt", weights_only=True)["model"]
    np.testing.assert_allclose(saved["0.running_mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(saved["0.running_var"], variance, rtol=1e-9)
