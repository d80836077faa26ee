"""One rank runs out of memory: the step is void on all, its cap falls, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.launch import SCRIPTS, Launched, command, free_port, staves_run
from tests.training.scripts.exhausted import CASES
from tests.training.scripts.models import EPOCHS, SAMPLES, relative_error

SCRIPT = SCRIPTS / "exhausted.py"
FEW = 3  # cases where a launcher is in question, not a way of running out


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[torch.Tensor]]:
    """What one process with memory enough ends with, by case."""
    folder = tmp_path_factory.mktemp("alone")
    done = command([SCRIPT, folder], folder)
    assert done.status == 0, done.stderr
    facts = json.loads((folder / "0.json").read_text())
    assert [each["void"] for each in facts.values()] == [0] * len(CASES)
    loaded: dict[str, list[torch.Tensor]] = torch.load(folder / "0.pt")
    return loaded


def check(folder: Path, done: Launched, undisturbed: Mapping[str, Any], count: int) -> None:
    assert done.status == 0, done.stderr
    facts = [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]
    ends = [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]
    for name in list(CASES)[:count]:
        case, both = CASES[name], [each[name] for each in facts]
        error = relative_error(ends[0][name], undisturbed[name])
        print(f"{name}: {both[1]}, relative error {error:.1e}")
        # An adaptive batch depends on how fast the devices are; its ranks must still agree.
        assert error <= 1e-11 or case.adaptive, name
        assert relative_error(ends[1][name], ends[0][name]) == 0.0, name
        assert both[0]["void"] == both[1]["void"] > 0, name
        assert both[0]["void"] == 1 or not case.once, name
        for own in both if not case.adaptive else []:
            assert (own["steps"], own["samples"]) == (5 * EPOCHS, SAMPLES * EPOCHS), name
        assert both[1]["largest"] <= case.limit or case.once, name


def test_the_state_is_that_of_a_run_with_memory_enough(
    tmp_path: Path, undisturbed: Mapping[str, Any]
) -> None:
    done = staves_run(tmp_path, SCRIPT, tmp_path, devices=2, timeout=300)
    check(tmp_path, done, undisturbed, len(CASES))
    assert "rank 1 ran out of memory with 14 samples; from here on it holds at most" in done.stderr


@pytest.mark.soak
def test_without_a_supervisor(tmp_path: Path, undisturbed: Mapping[str, Any]) -> None:
    words = ["-m", "torch.distributed.run", "--nproc_per_node", 2, "--master_addr", "127.0.0.1"]
    words += ["--master_port", free_port(), SCRIPT, tmp_path, FEW]
    check(tmp_path, command(words, tmp_path), undisturbed, FEW)
