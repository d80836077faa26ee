"""Agents as Slurm jobs of a real cluster: nodes die, jobs are preempted, and strangers are safe."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from staves.engines.local import AttemptFolder
from staves.errors import StavesError
from staves.testing._engine_job import SCRIPT, Job
from tests.engines.slurm.cluster import engine
from tests.engines.slurm.daemons import SlurmDaemons, until


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def job(slurm: SlurmDaemons, home: Path, tmp_path: Path) -> Iterator[Job]:
    job = Job(lambda: engine(home), tmp_path / "work")
    yield job
    job.abandon()


def held(slurm: SlurmDaemons, node: str) -> list[str]:
    """Return the Slurm jobs that hold or want something of a node, oldest first."""
    format_ = "--format=%i|%n|%j"
    rows = [line.split("|") for line in slurm.run("squeue", "--noheader", format_).splitlines()]
    mine = [job for job, wanted, name in rows if wanted == node and name.startswith("staves-")]
    return sorted(mine, key=int)


def finish(job: Job) -> None:
    job.allow(None)
    done = job.end().ended
    assert done is not None
    assert done.end == "finished", job.log()
    job.prove()


@pytest.mark.soak
def test_each_device_has_a_slurm_job_and_is_given_back(job: Job, slurm: SlurmDaemons) -> None:
    job.train(job.devices[:3])
    job.until_on(job.devices[:3])
    (third,) = held(slurm, "n1")
    assert len(held(slurm, "n0")) == 2
    told = slurm.run("scontrol", "show", "job", "--oneliner", "--details", third)
    for word in ("ReqNodeList=n1", "gpu:emu:1", "Requeue=0", "Comment=staves:", "BatchHost=n1"):
        assert word in told
    assert "STAVES_AGENT_TOKEN" not in told
    job.resize(job.devices[1:3], request=1)
    job.until_on(job.devices[1:3])
    job.until(lambda _: len(slurm.jobs()) == 2, "a device to be given back", crawl=True)
    job.resize([*job.devices[1:3], job.devices[5]], request=2)
    job.until_on([*job.devices[1:3], job.devices[5]])
    assert len(held(slurm, "n3")) == 1
    job.stop(save=True)
    job.end(crawl=True)
    until(lambda: not slurm.jobs(), "all to be given back")


def test_gpus_are_told_apart(job: Job, slurm: SlurmDaemons) -> None:
    job.launch("echo $CUDA_VISIBLE_DEVICES > gpu-$RANK", job.devices[2:5])
    job.end()
    assert sorted(line for rank in range(2) for line in job.lines(f"gpu-{rank}")) == ["0", "1"]
    assert job.lines("gpu-2") == ["0"]


@pytest.mark.soak
def test_a_group_of_devices_is_one_slurm_job(
    slurm: SlurmDaemons, home: Path, tmp_path: Path
) -> None:
    job = Job(lambda: engine(home, holds="group"), tmp_path / "work")
    try:
        job.train(job.devices[:3])
        job.until_on(job.devices[:3])
        assert len(slurm.jobs()) == 2
        finish(job)
    finally:
        job.abandon()


def test_a_node_dies_and_comes_back(job: Job, slurm: SlurmDaemons) -> None:
    left, right = job.devices[:2], job.devices[2:4]
    job.train([*left, *right])
    job.until_on([*left, *right])
    slurm.down("n1")
    job.until_on(left)
    job.until(lambda status: "n1: " in status.pending, "a reason", crawl=True)
    nodes = job.engine.cluster
    job.until(lambda _: "n1" not in [n.name for n in nodes().nodes], "its loss", crawl=True)
    slurm.up("n1", wait=False)
    status = job.until_on([*left, *right])
    assert status.pending == ""
    job.until(lambda _: len(nodes().nodes) == 4, "its return", crawl=True)
    finish(job)


@pytest.mark.soak
def test_preempted_it_comes_back(job: Job, slurm: SlurmDaemons) -> None:
    job.train(job.devices[1:4])
    job.until_on(job.devices[1:4])
    before = held(slurm, "n1")
    stranger = slurm.submit("--partition=urgent", "--nodelist=n1", "--gres=gpu:emu:2")
    job.until_on(job.devices[1:2])
    job.until(lambda _: slurm.state(stranger) == "RUNNING", "the stranger", crawl=True)
    job.until(lambda status: "is pending: " in status.pending, "Slurm's reason", crawl=True)
    assert slurm.state(stranger) == "RUNNING"
    slurm.run("scancel", stranger)
    job.until_on(job.devices[1:4])
    assert not set(before) & set(held(slurm, "n1"))
    finish(job)


def test_it_is_never_requeued(job: Job, slurm: SlurmDaemons) -> None:
    job.launch("echo x >> ran; sleep 1000", job.devices[5:6])
    job.until(lambda _: job.lines("ran"), "its start")
    (held_now,) = held(slurm, "n3")
    with pytest.raises(StavesError, match="disabled"):
        slurm.run("scontrol", "requeue", held_now)
    assert slurm.state(held_now) == "RUNNING"


@pytest.mark.soak
def test_warned_of_its_time_limit_it_moves_on(job: Job, slurm: SlurmDaemons) -> None:
    job.train(job.devices[1:3])
    job.until_on(job.devices[1:3])
    (old,) = held(slurm, "n1")
    slurm.run("scancel", "--batch", "--signal=USR1", old)  # as Slurm does at the time
    job.until(lambda _: held(slurm, "n1") not in ([], [old]), "another one", crawl=True)
    job.until_on(job.devices[1:3])
    assert "the time of" in job.log()
    assert "was lost" not in job.log()
    finish(job)


@pytest.mark.soak
def test_warned_with_too_little_left_it_is_saved(job: Job, slurm: SlurmDaemons) -> None:
    job.allow(2)
    (job.folder / "train.py").write_text(SCRIPT)
    command = f"exec {shlex.quote(sys.executable)} train.py ."
    folder = job.folder / "checkpoints"
    job.launch(command, job.devices[1:3], checkpoint=folder, minimum=2)
    job.until_on(job.devices[1:3])
    slurm.run("scancel", "--batch", "--signal=USR1", *held(slurm, "n1"))
    status = job.end(crawl=True)
    assert status.ended is not None
    assert status.ended.end == "saved", job.log()
    assert job.saved_step() == status.progress["step"]
    job.attempt = 2
    job.train(job.devices[1:3], steps=job.saved_step())
    job.until_on(job.devices[1:3])
    finish(job)


def test_what_cannot_be_had_says_why(slurm: SlurmDaemons, home: Path, tmp_path: Path) -> None:
    stranger = slurm.submit("--nodelist=n3", "--gres=gpu:slow:1")
    until(lambda: slurm.state(stranger) == "RUNNING", "the stranger")
    job = Job(lambda: engine(home, pending_within=1.0), tmp_path / "work")
    try:
        job.launch("true", job.devices[5:6])
        done = job.end().ended
        assert done is not None
        assert done.end == "unplaced"
        assert "n3: no agent: its place was not to be had within 1 s: Slurm job" in done.reason
        assert "is pending: " in done.reason
    finally:
        job.abandon()
    assert slurm.state(stranger) == "RUNNING"


def test_strangers_are_never_ended(job: Job, slurm: SlurmDaemons) -> None:
    strangers = [
        slurm.submit("--nodelist=n2", "--gres=gpu:emu:1"),
        slurm.submit("--nodelist=n1", f"--job-name=staves-{job.name}-1-1"),  # as ours are called
    ]
    job.train(job.devices[:2])
    job.until_on(job.devices[:2])
    job.resize(job.devices[1:3], request=1)
    job.until_on(job.devices[1:3])
    job.resize([*job.devices[1:3], job.devices[4]], request=2)  # which a stranger holds
    job.until(lambda status: "n2: Slurm job" in status.pending, "a reason", crawl=True)
    job.stop(save=False)
    job.end()
    job.abandon()
    until(lambda: len(slurm.jobs("")) == 2, "all of ours to end")
    assert [slurm.state(stranger) for stranger in strangers] == ["RUNNING", "RUNNING"]


def test_a_dead_supervisor_leaves_nothing(job: Job, slurm: SlurmDaemons, home: Path) -> None:
    stranger = slurm.submit("--nodelist=n2", "--gres=gpu:emu:1")
    until(lambda: slurm.state(stranger) == "RUNNING", "the stranger")
    job.launch("echo x >> ran; sleep 1000", [job.devices[0], job.devices[4]])
    job.until(lambda status: "n2: Slurm job" in status.pending, "a reason")
    job.until(lambda _: job.lines("ran"), "the other")
    os.kill(int(AttemptFolder.of(home, job.name, 1).read("run.json")["pid"]), signal.SIGKILL)
    until(lambda: held(slurm, "n0") == [], "what runs to end by itself")
    (waiting,) = held(slurm, "n2")  # it would find nobody, and end
    job.attempt = 2
    job.launch("true", job.devices[:1])
    job.end()
    assert slurm.state(waiting) == "CANCELLED"
    assert slurm.state(stranger) == "RUNNING"


def test_drained_nodes_are_left_out(slurm: SlurmDaemons, home: Path) -> None:
    nodes = engine(home)._nodes
    found = {node.name: dict(node.devices) for node in nodes.discover().nodes}
    assert found == {"n0": {"emu": 2}, "n1": {"emu": 2}, "n2": {"emu": 1}, "n3": {"slow": 1}}
    slurm.run("scontrol", "update", "nodename=n3", "state=drain", "reason=a test")
    try:
        assert [node.name for node in nodes.discover().nodes] == ["n0", "n1", "n2"]
    finally:
        slurm.run("scontrol", "update", "nodename=n3", "state=resume")
    until(lambda: len(nodes.discover().nodes) == 4, "its return")


def test_options_reach_slurm(slurm: SlurmDaemons, home: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "partition": "urgent",
        "time_limit": "17",
        "options": ["nice=5", "--mem=100M"],
    }
    job = Job(lambda: engine(home, **options), tmp_path / "work")
    try:
        job.launch("echo x > ran; sleep 1000", job.devices[:1])
        job.until(lambda _: job.lines("ran"), "its start")
        told = slurm.run("scontrol", "show", "job", "--oneliner", *slurm.jobs())
        for word in ("Partition=urgent", "TimeLimit=00:17:00", "Nice=5", "MinMemoryNode=100M"):
            assert word in told
    finally:
        job.abandon()


def test_a_cluster_that_does_not_answer_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StavesError, match="sinfo is not installed here"):
        engine(home)
