"""One script, started by python, by torchrun and by staves: the same training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from staves.training._environment import Environment
from tests.training.launch import SCRIPTS, command, free_port, staves_run
from tests.training.scripts.models import relative_error

SCRIPT = SCRIPTS / "plain.py"
STEPS = 40  # enough for both probes and the optimal split


def results(file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = torch.load(file)
    return loaded


def test_the_launcher_makes_no_difference(tmp_path: Path) -> None:
    alone = command([SCRIPT, tmp_path / "alone.pt"], tmp_path)
    assert alone.status == 0, alone.stderr
    assert "epoch 8: loss" in alone.stdout

    words = ["-m", "torch.distributed.run", "--nproc_per_node", 2, "--master_addr", "127.0.0.1"]
    words += ["--master_port", free_port(), SCRIPT, tmp_path / "torchrun.pt"]
    torchrun = command(words, tmp_path)
    assert torchrun.status == 0, torchrun.stderr

    ours = staves_run(tmp_path, SCRIPT, tmp_path / "staves.pt", devices=3)
    assert ours.figures["steps"] == STEPS
    assert ours.figures["epochs"] == 8
    assert sum(ours.figures["local_batches"]) == 32
    assert ours.figures["rescales"] == 0
    assert ours.figures["emulated"] is False

    wanted = results(tmp_path / "alone.pt")
    assert (wanted["world"], wanted["steps"]) == (1, STEPS)
    for name, world in (("torchrun", 2), ("staves", 3)):
        got = results(tmp_path / f"{name}.pt")
        assert (got["world"], got["steps"]) == (world, STEPS)
        error = relative_error(got["parameters"], wanted["parameters"])
        print(f"{name}: relative error {error:.1e}")
        assert error <= 1e-11
        assert got["loss"]["first"] == pytest.approx(wanted["loss"]["first"], rel=1e-12)
        assert got["loss"]["last"] == pytest.approx(wanted["loss"]["last"], rel=1e-9)
    told = dict(ours.figures["loss"])
    assert told.pop("covered") == {"first": 1.0, "last": 1.0}
    assert told == json.loads(json.dumps(results(tmp_path / "staves.pt")["loss"]))


def test_torchrun_is_told_of_checkpoints_by_the_environment() -> None:
    ranks = {"RANK": "1", "WORLD_SIZE": "2"}
    assert Environment.read(ranks).checkpoint is None
    told = Environment.read({**ranks, "STAVES_CHECKPOINT": "/c", "STAVES_CHECKPOINT_EVERY": "9s"})
    assert (told.launcher, told.checkpoint, told.checkpoint_every) == ("torchrun", "/c", "9s")
