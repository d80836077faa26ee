"""The supervisor dies, or a joiner is another program (rules 12, 15, 16, 19)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.elastic.driver import SCRIPT, job, largest_error, result
from tests.training.launch import command

LIMIT = 1e-9


def killed_at_four(folder: Path) -> Path:
    """Train with 4, and kill the supervisor after some checkpoints; return their folder."""
    checkpoints = folder / "checkpoints"
    with job(folder, 4, "--checkpoint", checkpoints, "--every", "1s") as running:
        running.until(lambda: any(checkpoints.glob("step-*/manifest.json")), what="a checkpoint")
        running.until_step(running.steps() + 5)
        running.kill_supervisor()
    return checkpoints


def resume(folder: Path, checkpoints: Path, devices: int, undisturbed: dict[str, Any]) -> None:
    with job(folder, devices, "--checkpoint", checkpoints, paced=False) as running:
        figures = running.finish()
        proof = running.prove()
    assert "resumed at step" in figures["stderr"]
    assert Path(proof["ledger"]) == checkpoints / "ledger.jsonl"
    assert proof["steps"] == undisturbed["steps"], "over both attempts"
    error = largest_error(result(folder), undisturbed)
    print(f"4 -> {devices} ranks: {error=}")
    assert error <= LIMIT


def test_rule_12_a_killed_supervisor_and_a_second_run(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    checkpoints = killed_at_four(tmp_path)
    resume(tmp_path, checkpoints, 3, undisturbed)


def test_rule_12_two_runs_do_not_share_a_checkpoint_folder(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """The second is refused before it starts anything, and the first goes on."""
    checkpoints = tmp_path / "checkpoints"
    with job(tmp_path, 2, "--checkpoint", checkpoints, "--every", "1s") as running:
        running.until_step(5)
        words = ["-m", "staves", "run", "--checkpoint", checkpoints, SCRIPT, tmp_path / "other"]
        second = command([*words], tmp_path / "home")
        assert (second.status, second.stdout) == (2, "")
        assert f"{checkpoints} is in use by {running.run_folder().name}" in second.stderr
        assert not (tmp_path / "other").exists()
        running.finish()
        running.prove()
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT


@pytest.mark.soak
def test_rule_15_loads_at_any_number_of_ranks(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    checkpoints = killed_at_four(tmp_path)
    for devices in (1, 3, 8):
        copy = tmp_path / f"for-{devices}"
        shutil.copytree(checkpoints, copy)
        resume(tmp_path, copy, devices, undisturbed)


@pytest.mark.soak
def test_rule_16_another_script_does_not_join(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    script = tmp_path / "edited.py"
    shutil.copy(SCRIPT, script)
    with job(tmp_path, 2, script=script) as running:
        running.until_step(5)
        running.scale(1)
        running.until_world(1)
        script.write_text(SCRIPT.read_text() + "\n# edited meanwhile\n")
        running.scale(2)

        def refused() -> bool:
            return (tmp_path / "pids" / "2").exists() and not running.alive(2)

        running.until(refused, what="the refusal")
        running.until_step(running.steps() + 5)
        figures = running.finish()
        running.prove()
    assert "another script" in figures["stderr"]
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT
