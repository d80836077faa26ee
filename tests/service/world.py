"""A real service on emulated devices: its commands' side, and what its jobs leave on disk."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from staves.errors import StavesError
from staves.service import Client, ServiceFolder, Settings, pack_job, read_job, up

SCRIPT = Path(__file__).parent / "scripts" / "train.py"
PATIENCE = 180.0
QUICK = {"fixed": "10ms", "per_sample": "0.5ms"}
SLOW = {"fixed": "10ms", "per_sample": "1ms"}


class World:
    """A service whose controller is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.home, self.work, self.lines = folder / "home", folder / "work", folder / "lines"
        for made in (self.work, self.lines):
            made.mkdir()
        shutil.copy(SCRIPT, self.work / "train.py")
        cluster = {
            "types": {
                name: {"emulate": {"forward": pace, "backward": pace}}
                for name, pace in (("quick", QUICK), ("slow", SLOW))
            },
            "nodes": [
                {"name": "a", "devices": {"quick": 2}},
                {"name": "b", "devices": {"slow": 2}},
            ],
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

    def until(self, ready: Callable[[], bool], what: str, *, patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
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

    def job(self, job: str) -> dict[str, Any]:
        return self.client.job(job)

    def until_state(self, job: str, *states: str) -> dict[str, Any]:
        """Wait until the job is in one of the states; return its document."""
        self.until(lambda: self.job(job)["state"] in states, f"job {job} to be {states}")
        return self.job(job)
