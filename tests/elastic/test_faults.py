"""A process dies at the worst moments; the others go on and lose and repeat nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.elastic.driver import PATIENCE, SCRIPT, job, largest_error, result
from tests.training.launch import command

LIMIT = 1e-9


def fault(member: int | str, kind: str, step: int = 0) -> dict[str, Any]:
    return {"member": member, "kind": kind, "step": step}


def test_rules_2_and_7_between_buckets_in_and_after_the_update(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """Nobody is replaced in time, so that 4 become 1; the newcomers meet a dying source."""
    faults = [
        fault(3, "before the last bucket", 20),
        fault(2, "after the update", 24),
        fault(0, "source during the transfer", 20),  # when member 4 comes
    ]
    with job(tmp_path, 4, faults=faults) as running:
        running.until_step(22)
        running.until_world(4, without=0)
        running.until_step(running.steps() + 3)
        figures = running.finish()
        running.prove()
        ledger = running.rows("generation")
    error = largest_error(result(tmp_path), undisturbed)
    print(f"generations {[row['members'] for row in ledger]}, {error=}")
    assert error <= LIMIT
    assert figures["stderr"].count("was lost (signal 9)") == 3


def test_rule_7_inside_the_update(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    """Half an update is nobody's state; then the store dies, and a new one is met at."""
    with job(tmp_path, 3, faults=[fault(0, "inside the update", 12)]) as running:
        running.until_step(16)
        before = len(running.rows("generation"))
        running.kill_store()
        running.until(lambda: len(running.rows("generation")) > before, what="a new store")
        running.until_step(running.steps() + 5)
        figures = running.finish()
        running.prove()
    error = largest_error(result(tmp_path), undisturbed)
    assert error <= LIMIT
    assert "the rendezvous store was lost" in figures["stderr"]


def test_a_rank_that_dies_where_the_noise_scale_is_added_up(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """Its step is whole, and counts; nobody waits for its norms."""
    (tmp_path / "adaptive").touch()
    kind = "before the norms are added up"
    with job(tmp_path, 3, faults=[fault(1, kind, 15), fault(0, kind, 40)]) as running:
        running.until_step(45)
        figures = running.finish()
        running.prove()
    error = largest_error(result(tmp_path), undisturbed)
    assert error <= LIMIT
    assert figures["stderr"].count("was lost (signal 9)") == 2
    assert figures["noise_scale"] > 0
    low, high = figures["noise_scale_interval"]
    assert low <= figures["noise_scale"] <= (high or float("inf"))


@pytest.mark.parametrize("failing", [0, pytest.param(2, marks=pytest.mark.soak)])
def test_rule_7_an_error_in_the_update_that_the_script_catches(
    failing: int, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """Another rank's state mends it, by a generation of the same members."""
    with job(tmp_path, 3, faults=[fault(failing, "error in the update", 12)]) as running:
        running.until_step(20)
        figures = running.finish()
        running.prove()
        ledger = running.rows("generation")
    assert [sorted(row["members"]) for row in ledger] == [[0, 1, 2], [0, 1, 2]]
    assert ledger[1]["step"] in (12, 13)
    assert f"optimizer.step failed on rank {failing}: ArithmeticError" in figures["stderr"]
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT


@pytest.mark.parametrize("world", [1, 2])
def test_rule_7_nobody_is_left_with_a_whole_state(world: int, tmp_path: Path) -> None:
    faults = [fault(member, "error in every update", 12) for member in range(world)]
    with job(tmp_path, world, faults=faults, paced=False) as running:
        _, stderr = running.process.communicate(timeout=PATIENCE)
    assert running.process.returncode == 1
    assert "optimizer.step failed on" in stderr
    assert "nobody has a whole state" in stderr


def test_rule_7_in_a_job_without_a_supervisor(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text(json.dumps([fault("alone", "error in the update", 12)]))
    done = command([SCRIPT, tmp_path], tmp_path / "home")
    assert done.status == 1
    assert "no other rank can give this one a whole state" in done.stderr


def test_rule_6_the_very_first_generation_breaks(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """Nothing is on disk yet, and nobody but rank 0 has a state."""
    with job(tmp_path, 3, faults=[fault(2, "after commit")]) as running:
        running.until_step(5)
        running.finish()
        running.prove()
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT


@pytest.mark.parametrize(
    "kinds",
    [
        ("before hello", "after prepared"),
        ("after commit", "receiver during the transfer"),
    ],
    ids=["before it is in", "when it is in"],
)
def test_rules_4_and_6_a_joiner_dies(
    kinds: tuple[str, str], tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """The one that was killed has two replacements that die too; its node gets no third."""
    faults = [fault(2 + place, kind) for place, kind in enumerate(kinds)]
    with job(tmp_path, 2, faults=faults) as running:
        running.until_step(5)
        running.kill(1)

        def both_died() -> bool:
            return (tmp_path / "pids" / "3").exists() and not running.alive(3)

        running.until(both_died, what="the second replacement's end")
        running.until_step(running.steps() + 3)
        figures = running.finish()
        running.prove()
    assert largest_error(result(tmp_path), undisturbed) <= LIMIT
    assert figures["stderr"].count("was lost (signal 9)") == 3
