"""The demo's figures, from what the service tells."""

from __future__ import annotations

from typing import Any

import pytest
from examples.demo._comparison import compare, comparison_table
from examples.demo._summary import explained, job_line, summarise
from examples.demo._table import final_table

from staves.hardware import Cluster, DeviceType, Node

CLUSTER = Cluster(
    {name: DeviceType(name) for name in ("a100", "t4")},
    (Node("fast", {"a100": 1}), Node("slow", {"t4": 1})),
)


def span(devices: list[str], since: float, **fields: Any) -> dict[str, Any]:
    return {
        "attempt": 1,
        "devices": devices,
        "since": since,
        "until": since + 10.0,
        "steps": 50,
        "local_batches": [16] * len(devices),
        "step_seconds": 0.1,
        "predicted_step_seconds": 0.1,
        "even_step_seconds": None,
        "even_step_source": None,
        "pause_seconds": None,
        **fields,
    }


def job(number: int, spans: list[dict[str, Any]], *, learned: bool) -> dict[str, Any]:
    line = [[0.001, 0.001, 0.0], [0.001, 0.002, 0.0]]
    knowledge = {
        "lines": {"type a100": line, "type t4": [[0.001, 0.002, 0.0], [0.001, 0.004, 0.0]]},
        "ready": [1.0],
        "seconds": [0.001],
        "world_size": 2,
    }
    return {
        "id": str(number),
        "name": f"job{number}",
        "state": "finished",
        "devices": [],
        "submitted": 100.0,
        "started": 101.0,
        "finished": 130.0,
        "progress": {"samples": 3200, "total_samples": 3200, "batch": 32, "step_seconds": 0.1},
        "knowledge": knowledge if learned else None,
        "spec": {"types": None, "minimum": 1, "maximum": 2, "priority": 50},
        "summary": {"loss": {"first": 2.0, "last": 0.5}, "metrics": {"accuracy": 0.9}},
        "spans": spans,
    }


def jobs() -> list[dict[str, Any]]:
    both = ["fast/a100-0", "slow/t4-0"]
    measured = {"even_step_seconds": 0.15, "even_step_source": "measured"}
    grown = [
        span(["fast/a100-0"], 104.0),
        span(both, 110.0, pause_seconds=0.3, local_batches=[22, 10], **measured),
        span(both[:1], 120.0, pause_seconds=0.2),
    ]
    return [job(1, grown, learned=True), job(2, [span(["slow/t4-0"], 104.0)], learned=False)]


def test_the_figures_are_those_of_the_span_that_was_compared() -> None:
    summary = summarise(jobs(), [], started=100.0, seconds=31.0)
    first, second = summary["jobs"]
    assert first["device_types"] == ["a100", "t4"]
    assert (first["mixed"], first["rescales"]) == (True, 2)
    assert first["pauses_seconds"] == [0.3, 0.2]
    assert first["local_batches"] == [22, 10]
    assert (first["even_step_seconds"], first["step_seconds"]) == (0.15, 0.1)
    assert first["jct_seconds"] == 30.0
    assert first["loss"] == {"first": 2.0, "last": 0.5}
    assert first["spans"][0]["since"] == 4.0
    assert (second["mixed"], second["rescales"], second["even_step_seconds"]) == (False, 0, None)
    assert final_table(summary).row_count == 2


def test_the_same_jobs_under_other_rules() -> None:
    """What was never fitted is guessed from its one device, so that every job is compared."""
    summary = {"comparison": compare(jobs(), CLUSTER)}
    times = summary["comparison"]["jct_seconds"]
    assert times["measured"] == {"job1": 30.0, "job2": 30.0}
    for rule in ("heet", "fifo, even splits"):
        assert times[rule].keys() == {"job1", "job2"}
        assert all(seconds > 3.0 for seconds in times[rule].values())
    # Both want two devices and keep them: the second waits for the first.
    assert times["fifo, even splits"]["job2"] > times["fifo, even splits"]["job1"]
    assert comparison_table(summary).row_count == 3


def test_a_decision_about_several_jobs_is_the_one_that_is_told() -> None:
    def entry(name: str, counts: dict[str, int], devices: list[str]) -> dict[str, Any]:
        chosen = {"counts": counts}
        return {"name": name, "chosen": chosen, "devices": devices, "probed": [], "text": "Why."}

    alone = entry("alone", {"a100": 1, "t4": 1}, ["fast/a100-0", "slow/t4-0"])
    one = entry("one", {"a100": 1, "t4": 1}, ["fast/a100-0", "slow/t4-0"])
    two = entry("two", {"a100": 1, "t4": 0}, ["fast/a100-1"])
    decisions = [{"policy": "heet", "jobs": [alone]}, {"policy": "heet", "jobs": [two, one]}]
    assert explained(decisions) == "heet gave one 1xa100+1xt4. Why."
    assert explained([]) == "No decision was made."


def test_a_line_of_a_job_that_has_told_nothing_yet() -> None:
    waiting = {**jobs()[0], "state": "queued", "progress": {}}
    line = job_line(waiting)
    assert (line["progress"], line["eta_seconds"], line["local_batches"]) == (None, None, [])
    assert job_line(jobs()[0])["progress"] == pytest.approx(1.0)
