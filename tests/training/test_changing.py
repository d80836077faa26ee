"""A real run whose device changes speed in mid-run: processes, collectives, flags in the store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from staves.steptime import Communication, Device, Line, StepTimeModel, integer_split
from staves.training._knowledge import Knowledge
from tests.training.launch import SCRIPTS, staves_run

PACE = {
    "forward": {"fixed": "6ms", "per_sample": "1ms"},
    "backward": {"fixed": "8ms", "per_sample": "2ms"},
}
FIRST, LAST, STEPS, BATCH = 40, 80, 120, 24


def best(factor: float) -> tuple[int, ...]:
    devices = [
        Device(str(i), "x", Line(0.006 * f, 0.001 * f), Line(0.008 * f, 0.002 * f))
        for i, f in enumerate((factor, 1.0))
    ]
    model = StepTimeModel(tuple(devices), Communication((1.0,), (0.0,)))
    return integer_split(model, BATCH).local_batches


def test_a_slowed_device_gets_less_within_thirty_steps_and_back(tmp_path: Path) -> None:
    file = tmp_path / "story.json"
    launched = staves_run(
        tmp_path,
        SCRIPTS / "changing.py",
        *(file, FIRST, LAST, STEPS),
        devices={"emulated": 2},
        emulate={"emulated": PACE},
    )
    assert launched.figures["steps"] == STEPS
    story = json.loads(file.read_text())
    first_rank = [split[0] for split in story["splits"]]
    assert first_rank[FIRST - 1] == pytest.approx(best(1.0)[0], abs=1)
    assert min(first_rank[FIRST : FIRST + 30]) == pytest.approx(best(2.0)[0], abs=1)
    assert first_rank[LAST - 1] == pytest.approx(best(2.0)[0], abs=1)
    assert max(first_rank[LAST : LAST + 30]) == pytest.approx(best(1.0)[0], abs=1)
    knowledge = Knowledge.from_document(story["knowledge"])
    forward, backward = knowledge.lines["box/emulated-1"]  # the one that never changed
    assert forward.seconds(12) == pytest.approx(0.018, rel=0.05)
    assert backward.seconds(12) == pytest.approx(0.032, rel=0.05)
    cells = knowledge.cells["box/emulated-1"]
    assert len(cells["forward"]) >= 3  # its measurements before the other's change were kept
    for part in ("data", "update"):
        assert all(0 < cell.seconds < 0.018 for cell in cells[part])
