"""A controller that is killed anywhere loses nothing, starts nothing twice, and stops no training.

Every job appends a line to a file of its own when it is run; the lines are counted. Training goes
on while there is no controller: its ledger is looked at before the next one is started.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from staves.errors import StavesError
from staves.service import Client, ServiceFolder, Settings, down, pack_job, read_job, up
from tests.training.launch import command

SCRIPT = Path(__file__).parent / "scripts" / "train.py"
PATIENCE = 180.0
PASS = {"fixed": "10ms", "per_sample": "0.5ms"}
PACE = {"forward": PASS, "backward": PASS}


class World:
    """A service whose controller is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.home, self.work, self.lines = folder / "home", folder / "work", folder / "lines"
        for made in (self.work, self.lines):
            made.mkdir()
        shutil.copy(SCRIPT, self.work / "train.py")
        cluster = {
            "types": {"quick": {"emulate": PACE}},
            "nodes": [{"name": "n", "count": 2, "devices": {"quick": 2}}],
        }
        (folder / "cluster.yaml").write_text(yaml.safe_dump(cluster))
        self.settings = Settings(self.home, cluster=folder / "cluster.yaml")
        self.folder = ServiceFolder(self.home)
        self.pid = int(up(self.settings)["pid"])
        self.client = Client(self.home, environ={}, patience=60.0)
        self._files = 0

    def submit(self, run: str, **fields: Any) -> str:
        """Submit a job, also while the controller is away; return its id."""
        self._files += 1
        path = self.work / f"job{self._files}.yaml"
        path.write_text(yaml.safe_dump({"run": run, "name": f"job-{self._files}", **fields}))
        spec = read_job(path)
        snapshot = pack_job(spec, self.home)
        self.client.put_snapshot(snapshot.hash, self.home / "snapshots" / snapshot.hash)
        job: str = self.client.submit(spec.to_document(), snapshot.hash)["id"]
        return job

    def append(self, seconds: float) -> str:
        """Submit a job that says that it runs, and takes a while."""
        line = f"echo x >> {self.lines}/$STAVES_JOB"
        return self.submit(f"{line}; sleep {seconds}")

    def train(self, epochs: int, **devices: int) -> str:
        return self.submit(f"python train.py {epochs}", devices={"min": 1, **devices})

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.until(lambda: self.folder.state == "dead", "the controller to die")

    def revive(self) -> None:
        self.pid = int(up(self.settings)["pid"])

    def steps(self, job: str) -> int:
        """How many steps of a training job are in its ledger, without asking the controller."""
        path = self.home / "jobs" / job / "checkpoint" / "ledger.jsonl"
        return path.read_bytes().count(b'"step"') if path.exists() else 0

    def until(self, ready: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not ready():
            assert time.monotonic() < end, f"waited in vain for {what}: {self.told()}"
            time.sleep(0.02)

    def told(self) -> str:
        with contextlib.suppress(StavesError):
            return json.dumps([(j["id"], j["state"], j["reason"]) for j in self.jobs()])
        return "no answer"

    def jobs(self) -> list[dict[str, Any]]:
        return self.client.jobs(everything=True)

    def over(self) -> bool:
        return all(job["state"] in ("finished", "failed", "cancelled") for job in self.jobs())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    try:
        yield made
    finally:
        made.client.close()
        down(made.folder, grace=30.0)


@pytest.mark.parametrize(
    "kills", [pytest.param(4, id="few"), pytest.param(30, id="all", marks=pytest.mark.soak)]
)
def test_kills_at_random_points(world: World, kills: int) -> None:
    chance = random.Random(kills)
    trainer = world.train(epochs=4 * kills, max=3)
    world.until(lambda: world.steps(trainer) > 0, "the first step")
    submitted: list[str] = []
    stopped: set[str] = set()
    went_on = 0

    def act(kind: str) -> None:
        with contextlib.suppress(StavesError):
            if kind == "submit":
                submitted.append(world.append(chance.choice([0.1, 1.0])))
            elif kind == "rescale":
                world.client.act(trainer, "scale", devices=chance.choice([1, 2, 3]))
            elif kind == "stop" and submitted:
                victim = chance.choice(submitted)
                stopped.add(victim)
                world.client.act(victim, "stop")

    kinds = ["submit", "start", "rescale", "stop"]
    for number in range(kills):
        kind = kinds[number % len(kinds)]
        if kind == "start":  # it is submitted by now, and is about to be started
            act("submit")
        thread = threading.Thread(target=act, args=(kind,))
        thread.start()
        time.sleep(chance.uniform(0.0, 0.6))  # any point will do
        world.kill()
        before = world.steps(trainer)
        if world_of(world, trainer):
            world.until(lambda seen=before: world.steps(trainer) > seen, "training without one")  # type: ignore[misc]
            went_on += 1
        world.revive()
        thread.join(timeout=PATIENCE)
    world.until(world.over, "all jobs to end")
    states = {job["id"]: job["state"] for job in world.jobs()}
    assert states[trainer] == "finished"
    assert set(submitted) <= set(states)
    for job in submitted:
        ran = world.lines / job
        times = len(ran.read_text().splitlines()) if ran.exists() else 0
        if job in stopped:
            assert times <= 1
            assert states[job] in ("cancelled", "finished")
        else:
            assert (times, states[job]) == (1, "finished")
    assert len(list((world.home / "jobs" / trainer / "attempts").iterdir())) == 1
    proof = command(["-m", "staves", "doctor", "--job", trainer, "--json"], world.home)
    assert json.loads(proof.stdout)["exactly_once"] is True
    print(f"{kills} kills, {len(submitted)} jobs; training went on after {went_on} of the kills")
    assert went_on >= kills // 2


def world_of(world: World, job: str) -> bool:
    """Whether the job's attempt is still under way, by its folder."""
    return not (world.home / "jobs" / job / "attempts" / "1" / "outcome.json").exists()
