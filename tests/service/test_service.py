"""Jobs of a real service: started, measured, resized, moved, paused, resumed, and ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from staves.errors import InputError, StavesError
from staves.service import Client, Refused, Settings, down, up
from tests.service.world import World
from tests.training.launch import command


def nodes_of(live: World, job: str) -> set[str]:
    return {name.partition("/")[0] for name in live.job(job)["devices"]}


def test_a_training_job_lives_through_everything(live: World) -> None:
    """It grows over unlike devices, shares, leaves a drained node, pauses, outlives a `down`."""
    job = live.train(epochs=20)
    live.until(lambda: len(live.job(job)["devices"]) == 4, "all devices")
    assert nodes_of(live, job) == {"a", "b"}
    live.until_state(job, "running")
    (live.work / "train.py").write_text("raise SystemExit('edited after it was submitted')")

    other = live.append(0.1)  # shares, and is over soon
    live.until_state(other, "finished")
    assert (live.lines / other).read_text() == "x\n"

    live.client.drain("a", True)
    live.until(lambda: nodes_of(live, job) == {"b"}, "the drained node to be left")
    live.client.drain("a", False)

    live.client.act(job, "scale", devices=2)
    live.until(lambda: len(live.job(job)["devices"]) == 2, "two devices")
    live.until_state(job, "running")

    live.client.act(job, "pause")
    live.client.act(job, "pause")  # asked again, it changes nothing
    assert live.until_state(job, "paused")["devices"] == []
    steps = live.steps(job)
    assert steps > 0
    live.client.act(job, "resume")
    live.until(lambda: live.steps(job) > steps, "training to go on")

    down(live.folder, grace=60.0)
    assert live.folder.state == "absent"
    live.pid = int(up(live.settings)["pid"])
    document = live.until_state(job, "finished")
    assert document["attempt"] == 3
    assert document["progress"]["samples"] == 20 * 1600
    spans = document["spans"]
    assert any(len({d.partition("/")[0] for d in span["devices"]}) == 2 for span in spans)
    proof = command(["-m", "staves", "doctor", "--job", job, "--json"], live.home)
    assert json.loads(proof.stdout)["exactly_once"] is True
    reason = live.client.explain(job)
    assert reason["policy"] == "heet"
    assert "samples a second" in reason["text"]


def test_what_fails_is_told(live: World) -> None:
    job = live.submit("echo for its log; exit 7", retries=0)
    document = live.until_state(job, "failed")
    assert "exit status 7" in document["reason"]
    log, _ = live.client.read_log(job, "rank-0")
    assert log == b"for its log\n"
    with pytest.raises(Refused, match="is failed: it cannot be paused") as refused:
        live.client.act(job, "pause")
    assert "its story: queued > running > failed" in str(refused.value.hint)
    with pytest.raises(InputError, match=r"devices.min: 9 are wanted, the cluster has 4"):
        live.submit("true", devices={"min": 9})
    with pytest.raises(StavesError, match="runs already"):
        up(Settings(live.home))
    assert live.client.jobs() == []


@pytest.mark.soak
def test_a_type_that_vanishes_between_two_starts(live: World, tmp_path: Path) -> None:
    """Jobs that want it wait, and say so; the others go on."""
    job = live.train(epochs=4)
    live.until(lambda: len(live.job(job)["devices"]) == 4, "all devices")
    choosy = live.submit("true", devices={"types": ["slow"], "min": 2})
    down(live.folder, grace=60.0)
    smaller = tmp_path / "smaller.yaml"
    text = Path(str(live.settings.cluster)).read_text()
    smaller.write_text(text[: text.index("- devices:\n    slow")] + text[text.index("types:") :])
    live.pid = int(up(Settings(live.home, cluster=smaller))["pid"])
    live.until_state(job, "finished")
    waits = {entry["id"]: entry["waits"] for entry in live.client.queue()}
    assert "the cluster has 0" in waits[choosy]
    down(live.folder, grace=60.0)
    live.pid = int(up(live.settings)["pid"])
    live.until_state(choosy, "finished")
    with Client(live.home, environ={}) as client:
        assert client.jobs() == []
