"""The controller as a service, without its turns: what it is told, and what it keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from staves.errors import InputError
from staves.service._controller import Controller, build_service
from staves.service._spec import JobSpec
from staves.service._states import Grant, Hello, Preempt

PACE = "{fixed: 1ms, per_sample: 1ms}"
CLUSTER = f"""
types: {{quick: {{emulate: {{forward: {PACE}, backward: {PACE}}}}}}}
nodes: [{{name: n, devices: {{quick: 2}}}}]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return path


@pytest.fixture
def controller(tmp_path: Path, cluster: Path) -> Iterator[Controller]:
    built = build_service(tmp_path / "home", cluster, "local", "heet")
    with closing(built):
        yield cast("Controller", built)


def spec(folder: Path, minimum: int = 1) -> JobSpec:
    return JobSpec("job", "true", folder, Path(sys.executable), minimum)


def test_the_next_start_has_the_cluster_of_the_last(tmp_path: Path, cluster: Path) -> None:
    home = tmp_path / "home"
    with closing(build_service(home, cluster, "local", "heet")) as first:
        nodes = first.nodes()
    cluster.unlink()
    with closing(build_service(home, None, "local", "heet")) as second:
        assert second.nodes() == nodes
    cluster.write_text(CLUSTER.replace("quick: 2", "quick: 1"))
    for file in (cluster, None):
        with closing(build_service(home, file, "local", "heet")) as third:
            assert len(third.nodes()[0]["devices"]) == 1


def test_a_refused_cluster_is_not_kept(tmp_path: Path, cluster: Path) -> None:
    home = tmp_path / "home"
    build_service(home, cluster, "local", "heet").close()
    (tmp_path / "wrong.yaml").write_text("nodes: [{devices: {quick: 1}}]")
    with pytest.raises(InputError, match="unknown device type"):
        build_service(home, tmp_path / "wrong.yaml", "local", "heet")
    with closing(build_service(home, None, "local", "heet")) as again:
        assert len(again.nodes()[0]["devices"]) == 2


def test_a_job_that_could_never_start_is_refused_and_not_kept(
    controller: Controller, tmp_path: Path
) -> None:
    document = spec(tmp_path, minimum=3).to_document()
    for refuse in (
        lambda: controller.check(document),
        lambda: controller.submit(document, "0" * 64, owner="me", key=None),
    ):
        with pytest.raises(InputError, match=r"devices\.min: 3 are wanted, the cluster has 2"):
            refuse()
    assert controller.jobs(everything=True, owner=None) == []


def test_health_says_quotas_and_why_past_jobs_cannot_be_learned_from(
    tmp_path: Path, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build_service(tmp_path / "home", cluster, "local", "heet", quotas={"ann": 1})
    with closing(cast("Controller", built)) as controller:
        assert controller.health()["quotas"] == {"ann": 1}
        assert controller.health()["learning"] is None

        def unreadable(jobs: object) -> None:
            raise ValueError("what is this")

        monkeypatch.setattr("staves.service._learning.history_of", unreadable)
        controller._turns._learning._executor = None  # fits at once
        controller._turns.turn()
        health = controller.health()
        assert health["ok"], "jobs run all the same"
        assert health["learning"] == "past jobs cannot be learned from: ValueError: what is this"


def test_quotas_that_would_not_be_honoured_start_nothing(tmp_path: Path, cluster: Path) -> None:
    with pytest.raises(InputError, match="'fifo' does not honour quotas"):
        build_service(tmp_path / "home", cluster, "local", "fifo", quotas={"ann": 1})
    assert not (tmp_path / "home").exists()


def test_a_job_that_is_being_preempted_can_be_resumed(
    controller: Controller, tmp_path: Path
) -> None:
    document = spec(tmp_path).to_document()
    job = controller.submit(document, "0" * 64, owner="me", key=None)["id"]
    controller._store.apply(job, Grant(("n/quick-0",)), Hello(), Preempt(), now=1.0)
    story = len(controller.job(job, owner=None)["story"])
    assert controller.act(job, "resume", {}, user="me")["state"] == "saving"
    assert len(controller.job(job, owner=None)["story"]) == story, "it comes back by itself"


def test_it_tells_what_was_measured_to_each_of_their_own(
    controller: Controller, tmp_path: Path
) -> None:
    document = spec(tmp_path).to_document()
    jobs = [
        controller.submit(document, "0" * 64, owner=owner, key=None)["id"]
        for owner in ("ann", "bob")
    ]
    stretch = {"devices": ["n/quick-0"], "since": 1.0, "local_batches": [8], "step_seconds": 0.5}
    for job in jobs:
        controller._store.observe(job, attempt=1, stretches=[stretch])
    row = {
        "device_type": "quick",
        "devices": 1,
        "nodes": 1,
        "throughput": pytest.approx(16.0),
        "source": "measured",
    }
    assert controller.history(owner="bob") == [{"job": jobs[1], **row}]
    assert controller.history(owner=None) == [{"job": job, **row} for job in jobs]
