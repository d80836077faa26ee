"""The controller on simulated time: deterministic, and its decisions replay byte for byte."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.fidelity._recording import recorded, recording
from benchmarks.fidelity._replay import decision_bytes, differing

from staves.errors import StavesError
from staves.hardware import parse_cluster
from staves.scheduling import Decision, Policy, View, policy
from staves.service import Arrival, JobSpec, Rehearsal, _rehearsal, rehearse
from staves.simulation import Overheads, TrainingTruth

CLUSTER = parse_cluster("""
types:
  fast: {emulate: {forward: {fixed: 5ms, per_sample: 1ms}, backward: {fixed: 7ms, per_sample: 2ms}}}
  slow: {emulate: {forward: {fixed: 7ms, per_sample: 3ms}, backward: {fixed: 9ms, per_sample: 5ms}}}
nodes: [{name: a, devices: {fast: 2}}, {name: b, devices: {slow: 2}}]
""")
COSTS = Overheads(start=3.0, worker=0.5, cores=2.0, hear=0.05, switch=0.02, save=0.3, end=0.1)


def arrivals(folder: Path, jobs: int = 5) -> list[Arrival]:
    return [
        Arrival(
            4.0 * n,
            JobSpec(f"job-{n}", "true", folder, folder, minimum=1 + n % 2, maximum=4 - n % 3),
            TrainingTruth(batch=64, samples=640, epochs=10 + 7 * n),
        )
        for n in range(jobs)
    ]


def played(folder: Path, chosen: Policy, jobs: Sequence[Arrival] | None = None) -> Rehearsal:
    folder.mkdir()
    return rehearse(chosen, CLUSTER, jobs or arrivals(folder.parent), folder, overheads=COSTS)


@pytest.mark.parametrize("name", ["heet", "srtf", "fifo"])
def test_the_same_twice(tmp_path: Path, name: str) -> None:
    one, other = (played(tmp_path / n, policy(name)) for n in ("one", "other"))
    assert one == other
    assert repr(one) == repr(other)
    assert all(job.record.state == "finished" for job in one.jobs)


@pytest.mark.parametrize("name", ["heet", "srtf"])
def test_turns_that_are_left_out_would_have_done_nothing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = played(tmp_path / "quick", policy(name))
    monkeypatch.setattr(_rehearsal._Awake, "at", lambda self, now, news, due: True)
    whole = played(tmp_path / "whole", policy(name))
    assert quick.jct_seconds == whole.jct_seconds
    assert [d.document for d in quick.decisions] == [d.document for d in whole.decisions]


@pytest.mark.parametrize("name", ["heet", "srtf", "fifo"])
def test_recorded_decisions_replay_byte_equal(tmp_path: Path, name: str) -> None:
    kept = tmp_path / "kept"
    with kept.open("wb") as file:
        watched = played(tmp_path / "watched", recording(policy(name), file))
    plain = played(tmp_path / "plain", policy(name))
    assert watched == plain  # to be recorded changes nothing
    count, bad = differing(policy(name), recorded(kept))
    assert count == len(plain.decisions) > 5
    assert bad == []
    other, wrong = differing(policy("fifo" if name != "fifo" else "srtf"), recorded(kept))
    assert other == count
    assert wrong  # it would be seen


def test_all_of_a_decision_is_compared() -> None:
    one = Decision({"1": (1, 0)}, value=0.1)
    assert decision_bytes(one) == decision_bytes(Decision({"1": (1, 0)}, value=0.1))
    nearest = Decision({"1": (1, 0)}, value=math.nextafter(0.1, 1.0))
    assert decision_bytes(one) != decision_bytes(nearest)
    assert json.loads(decision_bytes(one))["chosen"] == {"1": [1, 0]}


def test_a_lone_job_takes_its_start_and_its_steps(tmp_path: Path) -> None:
    """One type of one device: nothing to probe, so its JCT is known in closed form."""
    cluster = parse_cluster("""
    types: {fast: {emulate: {forward: {fixed: 5ms, per_sample: 1ms},
                             backward: {fixed: 7ms, per_sample: 2ms}}}}
    nodes: [{name: a, devices: {fast: 1}}]
    """)
    truth = TrainingTruth(batch=64, samples=640, epochs=10)
    job = Arrival(1.0, JobSpec("lone", "true", tmp_path, tmp_path), truth)
    done = rehearse(policy("heet"), cluster, [job], tmp_path, overheads=COSTS)
    steps = 100 * (0.012 + 64 * 0.003)
    expected = 0.3 + COSTS.start + COSTS.worker + steps + COSTS.end  # 0.3 s: a decision gathers
    assert expected <= done.jct_seconds[0] <= expected + 2 * 0.2  # two turns of the controller


def test_what_does_not_end_is_said(tmp_path: Path) -> None:
    truth = TrainingTruth(batch=64, samples=640, epochs=10_000)
    job = Arrival(0.0, JobSpec("long", "true", tmp_path, tmp_path), truth)
    with pytest.raises(StavesError, match="after 30 simulated seconds"):
        rehearse(policy("fifo"), CLUSTER, [job], tmp_path, until=30.0)


class Idle(Policy):
    """Gives nobody anything."""

    name = "idle"

    def decide(self, view: View) -> Decision:
        return Decision({})


def test_a_policy_of_ones_own(tmp_path: Path) -> None:
    job = arrivals(tmp_path, jobs=1)
    with pytest.raises(StavesError, match="still run"):
        rehearse(Idle(), CLUSTER, job, tmp_path, until=100.0)
