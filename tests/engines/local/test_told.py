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
    log.message(0, {"kind": "say", "text": "", "local_batches": [2, 2]})
    log.message(0, {"kind": "log", "epoch": 1, "metrics": {"accuracy": 0.5}})
    for member, loss in enumerate((1.0, 3.0)):
        assert said == []
        told = {"kind": "epoch", "epoch": 0, "loss": 2 * loss, "samples": 2, "reached": 4}
        log.losses.take(member, 1, told)
        log.message(member, told)
    assert said == ["epoch 1: loss 2, accuracy 0.5"]
    log.close()
    assert len(said) == 1


def test_memory_that_ran_out_in_the_script_has_advice() -> None:
    printed = "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory."
    assert "loss in the model's forward" in str(Outcome(traceback=printed).advice)
    assert Outcome(traceback="ValueError: x").advice is None


def test_a_run_without_a_ledger_trained_no_step(tmp_path: Path) -> None:
    with pytest.raises(StavesError, match="it trained no step"):
        job_ledger(RunFolder.create(tmp_path, "x"))
