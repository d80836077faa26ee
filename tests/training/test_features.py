"""What real scripts use trains as one process does; what cannot is refused or warned of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import staves
from staves.errors import InputError
from tests.training.launch import SCRIPTS, command, staves_run
from tests.training.scripts.features import BUILDS
from tests.training.scripts.models import relative_error

SCRIPT = SCRIPTS / "features.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The ends of one process (`alone`) and of two ranks (`together`), by case."""
    folder = tmp_path_factory.mktemp("features")
    alone = command([SCRIPT, folder / "alone.pt"], folder)
    assert alone.status == 0, alone.stderr
    done = staves_run(folder, SCRIPT, folder / "together.pt", devices=2, timeout=300)
    assert done.status == 0, done.stderr
    return {name: torch.load(folder / f"{name}.pt") for name in ("alone", "together")}


def check(results: dict[str, Any], name: str) -> None:
    error = relative_error(results["together"][name], results["alone"][name])
    print(f"{name}: relative error {error:.1e}")
    assert error <= 1e-11


def test_static_graph(results: dict[str, Any]) -> None:
    check(results, "static graph")


def test_static_graph_is_left_off_where_gradients_are_accumulated(results: dict[str, Any]) -> None:
    check(results, "static graph, accumulating")


def test_find_unused_parameters(results: dict[str, Any]) -> None:
    check(results, "unused parameters")


def test_several_parameter_groups(results: dict[str, Any]) -> None:
    check(results, "parameter groups")


def test_clipping_by_torch_after_the_reduction(results: dict[str, Any]) -> None:
    check(results, "clipped")


def test_a_summed_loss_is_divided_and_weighted(results: dict[str, Any]) -> None:
    check(results, "summed loss")


def test_a_compiled_model_is_not_compiled_for_every_split(results: dict[str, Any]) -> None:
    """Torch makes the size of the batch a variable where it sees a second one."""
    check(results, "compiled")
    assert 1 <= results["together"]["compilations"] <= 4
    assert set(BUILDS) < set(results["together"])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> staves.training.Run:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)
    return staves.init(batch_size=4)


DATA = TensorDataset(torch.arange(20.0)[:, None])


def test_an_own_sampler_is_refused(run: staves.training.Run) -> None:
    sampler: DistributedSampler[Any] = DistributedSampler(DATA, num_replicas=2, rank=0)
    with pytest.raises(InputError, match="sampler cannot be given") as caught:
        run.loader(DATA, sampler=sampler)
    assert "every sample once an epoch" in str(caught.value.hint)


def test_a_whole_data_loader_is_refused(run: staves.training.Run) -> None:
    with pytest.raises(InputError, match="is a DataLoader") as caught:
        run.loader(DataLoader(DATA, batch_size=4))  # type: ignore[arg-type]
    assert "run.loader(dataset, num_workers=...)" in str(caught.value.hint)


def test_a_wrapped_model_is_refused(run: staves.training.Run) -> None:
    class Wrapped(DistributedDataParallel):
        def __init__(self) -> None:
            nn.Module.__init__(self)

    with pytest.raises(InputError, match="DistributedDataParallel") as caught:
        run.prepare(Wrapped())
    assert "give the bare model" in str(caught.value.hint)


@pytest.mark.parametrize("world", [1, 2])
def test_batch_norm_warns_where_there_is_more_than_one_rank(world: int, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(BATCH_NORM)
    done = staves_run(tmp_path, script, devices=world)
    assert done.figures["steps"] == 4
    assert ("BatchNorm normalises each rank's samples by themselves" in done.stderr) is (world > 1)


def test_a_weight_on_one_rank_alone_is_refused(tmp_path: Path) -> None:
    """The others are in the reduction by then, and wait for it."""
    script = tmp_path / "train.py"
    script.write_text(
        BATCH_NORM.replace(".mean())", ".mean(), weight=0 if run.rank == 1 else None)").replace(
            "nn.BatchNorm1d(4)", "nn.ReLU()"
        )
    )
    done = staves_run(tmp_path, script, devices=2)
    assert done.status == 1
    assert "this rank gives a weight, and another one does not" in done.stderr


BATCH_NORM = """
import torch, staves
from torch import nn

run = staves.init(batch_size=8)
module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.1))
for _ in run.epochs(1):
    for (x,) in run.loader(torch.utils.data.TensorDataset(torch.randn(32, 3))):
        optimizer.zero_grad()
        run.backward(model(x).square().mean())
        optimizer.step()
"""
