"""What a supervisor makes of its workers' words: late steps, epochs, advice, an absent ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from staves.engines.local import Deadlines, EpochLog, Outcome, RunFolder, job_ledger
from staves.errors import StavesError


def test_late_steps_of_all_members_count_once() -> None:
    deadlines = Deadlines()
    deadlines.take(0, {"kind": "loss", "deadlines": None})
    assert deadlines.figures() == {}, "no device is emulated"
    assert not deadlines.void
    deadlines.take(1, {"kind": "loss", "deadlines": {"steps": 50, "missed": 1}})
    deadlines.take(1, {"kind": "deadlines", "deadlines": {"steps": 60, "missed": 1}})
    assert not deadlines.void
    deadlines.take(2, {"kind": "finished", "report": {"deadlines": {"steps": 40, "missed": 2}}})
    deadlines.take(2, {"kind": "left"})
    told = {"deadlines": {"device_steps": 100, "missed": 3}, "void": True}
    assert deadlines.figures() == told


def test_an_epoch_is_said_when_all_ranks_have_told_their_loss() -> None:
    said: list[str] = []
    log = EpochLog(said.append)
    log.message(0, {"kind": "formed", "devices": ["a", "b"]})
    log.message(0, {"kind": "log", "epoch": 1, "metrics": {"accuracy": 0.5}})
    for member, loss in enumerate((1.0, 3.0)):
        assert said == []
        told = {"kind": "epoch", "epoch": 0, "loss": 2 * loss, "samples": 2, "reached": 4}
        log.losses.take(member, 1, told)
        log.message(member, told)
    assert said == ["epoch 1: loss 2, accuracy 0.5"]
    log.close()
    assert len(said) == 1


def test_an_epoch_waits_for_all_ranks_also_behind_the_next_one() -> None:
    """A supervisor that comes late to its sockets reads all of one rank before the next one's."""
    said: list[str] = []
    log = EpochLog(said.append)
    log.message(0, {"kind": "formed", "devices": ["a", "b"]})
    for member, loss in enumerate((1.0, 3.0)):
        for epoch in range(3):
            told = {"kind": "epoch", "epoch": epoch, "loss": 2 * loss, "samples": 2, "reached": 4}
            log.losses.take(member, 1, told)
            log.message(member, told)
            if member == 0:
                log.message(member, {"kind": "log", "epoch": epoch + 1, "metrics": {}})
    assert said == [f"epoch {epoch}: loss 2" for epoch in (1, 2, 3)]


def test_an_epoch_that_a_lost_rank_has_not_told_is_said_with_the_next_one() -> None:
    said: list[str] = []
    log = EpochLog(said.append)
    log.message(0, {"kind": "formed", "devices": ["a", "b"]})
    partly = {"kind": "loss", "epoch": 0, "loss": 6.0, "samples": 1, "reached": 4}
    log.losses.take(1, 1, partly)
    for epoch in range(2):
        told = {
            "kind": "epoch",
            "epoch": epoch,
            "loss": 2.0,
            "samples": 2,
            "reached": 4 - 2 * epoch,
        }
        log.losses.take(0, 1, told)
        log.message(0, told)
        log.message(0, {"kind": "log", "epoch": epoch + 1, "metrics": {}})
        log.message(0, {"kind": "formed", "devices": ["a"]})
    assert said == [
        "epoch 1: loss 2.667 (loss over 75.0% of the samples: a rank was lost)",
        "epoch 2: loss 1",
    ]


def test_memory_that_ran_out_in_the_script_has_advice() -> None:
    printed = "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory."
    assert "loss in the model's forward" in str(Outcome(traceback=printed).advice)
    assert Outcome(traceback="ValueError: x").advice is None


def test_a_run_without_a_ledger_trained_no_step(tmp_path: Path) -> None:
    with pytest.raises(StavesError, match="it trained no step"):
        job_ledger(RunFolder.create(tmp_path, "x"))
