"""A model sharded by `fully_shard` (FSDP2) trains as one process does, and loads at any size."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import staves
from staves.errors import InputError
from tests.training.launch import (
    SCRIPTS,
    Launched,
    Roll,
    cluster_file,
    command,
    free_port,
    started,
    staves_run,
)
from tests.training.scripts.models import relative_error
from tests.training.scripts.sharded import CASES

SCRIPT, PARTED = SCRIPTS / "sharded.py", SCRIPTS / "parted.py"
STEPS = 20  # of four epochs


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The ends of one process that holds each model whole."""
    folder = tmp_path_factory.mktemp("alone")
    done = command([SCRIPT, folder / "alone.pt", "whole"], folder, timeout=300)
    assert done.status == 0, done.stderr
    results: dict[str, Any] = torch.load(folder / "alone.pt")
    return results


def torchrun(folder: Path, ranks: int, *arguments: object) -> Launched:
    words = ["-m", "torch.distributed.run", "--nproc_per_node", ranks]
    words += ["--master_addr", "127.0.0.1", "--master_port", free_port()]
    return command([*words, *arguments], folder, timeout=300)


@pytest.mark.parametrize(
    "split",
    [
        pytest.param("32", marks=pytest.mark.soak),
        pytest.param("24,8", marks=pytest.mark.soak),
        "20,12,0",
    ],
)
def test_any_split_trains_as_one_process_does(
    split: str, tmp_path: Path, alone: dict[str, Any]
) -> None:
    """Alone, by torchrun, and under a supervisor; the split rotates over the ranks."""
    file, ranks = tmp_path / "sharded.pt", split.count(",") + 1
    if ranks == 1:
        done = command([SCRIPT, file, split], tmp_path, timeout=300)
    elif ranks == 2:
        done = torchrun(tmp_path, ranks, SCRIPT, file, split)
    else:
        done = staves_run(tmp_path, SCRIPT, file, split, devices=ranks, timeout=300)
        assert done.figures["samples"] == 150 * 4
    assert done.status == 0, done.stderr
    results = torch.load(file)
    for name, (_, dtype, *_) in CASES.items():
        got, wanted = results[name], alone[name]
        errors = [relative_error(got[part], wanted[part]) for part in ("gradients", "parameters")]
        print(f"{split}: {name}: relative errors {errors[0]:.1e}, {errors[1]:.1e}")
        assert max(errors) <= (1e-6 if dtype == torch.float32 else 1e-11), name
        assert got["norms"] == pytest.approx(wanted["norms"], rel=1e-11)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The end of one process with AdamW, which saves its state and never loads one."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = command([PARTED, folder / "end.pt", folder / "kept", 4], folder, timeout=300)
    assert done.status == 0, done.stderr
    end: dict[str, Any] = torch.load(folder / "end.pt")
    assert end["steps"] == STEPS
    return end


def check_end(file: Path, undisturbed: dict[str, Any]) -> None:
    end = torch.load(file)
    for what in ("parameters", "mean"):
        error = relative_error(end[what], undisturbed[what])
        print(f"resumed: {what}: relative error {error:.1e}")
        assert error <= 1e-9
    assert end["steps"] == STEPS, "a registered object comes along"


def test_a_lost_rank_ends_the_run_which_resumes_with_fewer(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    kept = tmp_path / "kept"
    lost = staves_run(tmp_path, PARTED, tmp_path / "no.pt", kept, 4, 14, devices=3, timeout=300)
    assert lost.status == 1
    assert "failed on rank 2" in lost.stderr
    assert "a sharded model cannot go on without a rank" in lost.stderr
    assert [path.parent.name for path in kept.glob("step-*/manifest.json")] == ["step-00000008"]
    done = staves_run(tmp_path, PARTED, tmp_path / "end.pt", kept, 4, devices=2, timeout=300)
    assert "resumed at step 8" in done.stderr
    assert done.figures["steps"] == STEPS
    check_end(tmp_path / "end.pt", undisturbed)


def test_it_cannot_be_scaled_and_is_saved_where_it_is_told_to_stop(tmp_path: Path) -> None:
    """All ranks meet for that state, which is one of a model that is not sharded."""
    kept, roll = tmp_path / "kept", Roll(tmp_path / "roll")
    words: list[object] = ["-m", "staves", "run", "--json", "--checkpoint", kept, "--every", "1h"]
    words += ["--min", 1, "--max", 2]
    words += ["--devices", cluster_file(tmp_path, 2), PARTED, tmp_path / "no.pt", kept]
    with started([*words, 10_000], tmp_path / "home", environ={"ANNOUNCE": str(roll.path)}) as run:
        roll.lines(1, timeout=120)
        scaled = command(["-m", "staves", "scale", "latest", 1], tmp_path / "home")
        run.send_signal(signal.SIGINT)
        _, stderr = run.communicate(timeout=120)
    roll.close()
    assert scaled.status == 1
    assert "1 devices are outside of 2 to 2" in scaled.stderr
    assert "the ranks of a sharded model are fixed" in scaled.stderr
    assert run.returncode == 130, stderr
    assert "the same command goes on from there" in stderr
    assert "Traceback" not in stderr
    (manifest,) = kept.glob("step-*/manifest.json")
    assert json.loads(manifest.read_text())["step"] >= 5
    state = torch.load(manifest.parent / "state.pt", weights_only=True)
    assert {type(each) for each in state["model"].values()} == {torch.Tensor}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[staves.training.Run]:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)
    yield staves.init(batch_size=4)
    if dist.is_initialized():
        dist.destroy_process_group()


def sgd(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.1)


def test_the_mesh_comes_first(run: staves.training.Run) -> None:
    run.prepare(nn.Linear(2, 2))
    with pytest.raises(InputError, match="something is prepared already"):
        run.mesh()


def test_the_batch_of_a_sharded_model_cannot_adapt(run: staves.training.Run) -> None:
    with pytest.raises(InputError, match="cannot adapt"):
        staves.init(batch_size=staves.Adaptive(4, max=8)).mesh()


def test_what_a_sharded_run_prepares(run: staves.training.Run) -> None:
    mesh = run.mesh()
    assert run.mesh() is mesh
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    too_early = sgd(module)
    fully_shard(module[0], mesh=mesh)
    with pytest.raises(InputError, match=r"parameter 1\.weight is not sharded"):
        run.prepare(module)
    fully_shard(module, mesh=mesh)
    with pytest.raises(InputError, match="parameters that are not sharded") as caught:
        run.prepare(too_early)
    assert "after fully_shard" in str(caught.value.hint)
    with pytest.raises(InputError, match="a GradScaler cannot be used"):
        run.prepare(torch.amp.GradScaler("cpu"))
    with pytest.raises(InputError, match="not for a sharded model"):
        run.prepare(None, static_graph=True)
    model, optimizer = run.prepare(module, sgd(module))
    assert run.unwrap(model) is module
    assert optimizer.param_groups


def test_a_model_that_is_sharded_elsewhere_is_refused(run: staves.training.Run) -> None:
    other = staves.init(batch_size=4).mesh()
    module = fully_shard(nn.Linear(2, 2), mesh=other)
    with pytest.raises(InputError, match=r"not run\.mesh") as caught:
        run.prepare(module)
    assert "fully_shard(layer, mesh=run.mesh())" in str(caught.value.hint)
