"""What a supervisor writes of its workers' messages."""

from __future__ import annotations

from typing import Any

import pytest

from staves.engines.local._status import StatusFile


@pytest.fixture
def written() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def status(written: list[dict[str, Any]]) -> StatusFile:
    return StatusFile(lambda document: written.append(dict(document)), ["a", "b"])


def formed(generation: int, step: int, *devices: str, rank: int = 0) -> dict[str, Any]:
    message = {"kind": "formed", "rank": rank, "generation": generation, "step": step}
    return message | {"devices": list(devices)}


def progress(generation: int, step: int, seconds: float | None = 0.5) -> dict[str, Any]:
    names = (
        "epoch", "samples", "total_samples", "batch", "loss", "local_batches", "metrics",
        "predicted_step_seconds", "even_step_seconds", "even_step_source", "pause_seconds",
    )  # fmt: skip
    percentiles = None if seconds is None else {"p50": seconds, "p95": seconds}
    times = {"step_seconds": percentiles, "plan_step_seconds": percentiles}
    told = {"kind": "progress", "generation": generation, "step": step}
    return dict.fromkeys(names) | told | times


def test_at_first_only_the_devices_are_known(
    status: StatusFile, written: list[dict[str, Any]]
) -> None:
    status.flush()
    status.flush()
    (document,) = written
    assert (document["elastic"], document["devices"], document["request"]) == (None, ["a", "b"], 0)


def test_a_generation_s_steps_are_those_that_stand(
    status: StatusFile, written: list[dict[str, Any]]
) -> None:
    status.message(0, formed(1, 0, "a", "b"))
    status.message(1, formed(1, 0, "a", "b", rank=1))
    status.message(0, progress(1, 7))
    status.message(0, formed(2, 9, "b"))  # two more than its rank 0 has told
    status.message(0, progress(1, 9, 9.0))  # of a rank that has left, late
    status.message(0, progress(2, 12, 0.25))
    status.message(0, formed(3, 11, "b", "c"))  # one step was only the lost rank's
    status.flush()
    spans = written[-1]["spans"]
    assert [span["steps"] for span in spans] == [9, 2, 0]
    assert [span["step_seconds"] for span in spans] == [0.5, 0.25, None]
    assert [span["until"] is None for span in spans] == [False, False, True]
    assert written[-1]["devices"] == ["b", "c"]


def test_only_a_command_that_ends_well_is_known_not_to_be_elastic(
    written: list[dict[str, Any]],
) -> None:
    for finished, elastic in ((True, False), (False, None)):
        status = StatusFile(lambda document: written.append(dict(document)), ["a"])
        status.close(finished=finished)
        assert written[-1]["elastic"] is elastic


def test_a_resize_is_written_at_once(status: StatusFile, written: list[dict[str, Any]]) -> None:
    status.flush()
    status.resized(4, ["c"])
    status.flush()
    assert (written[-1]["request"], written[-1]["wanted"]) == (4, ["c"])
    assert written[-1]["devices"] == ["a", "b"]
