"""A service in memory: what the API, the daemon and the commands are tested against."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from staves.errors import InputError, StavesError
from staves.service._facade import (
    ENDED,
    Action,
    Caller,
    Document,
    Refused,
    Role,
    Sample,
    Service,
    UnknownName,
)
from staves.service._spec import JobSpec

AFTER = {"pause": "paused", "resume": "queued", "stop": "cancelled", "scale": None}


class FakeService(Service):
    def __init__(self, home: Path) -> None:
        self.home = home
        self.callers: dict[str, Caller] = {}
        self._made = home / "made-token"  # outlives the process, as a store does
        self.submitted: list[Document] = []
        self.keys: dict[tuple[str, str], Document] = {}
        self.snapshots: dict[str, Path] = {}
        self.drained: set[str] = set()
        self.broken: Exception | None = None
        self.well = True
        self.told: list[str] = []
        self.lock = threading.Lock()

    def start(self) -> None:
        self.told.append("start")

    def close(self) -> None:
        self.told.append("close")

    def shutdown(self) -> None:
        self.told.append("shutdown")

    def caller(self, token: str) -> Caller | None:
        if token in self.callers:
            return self.callers[token]
        return (
            Caller("root", "admin") if self._made.exists() and token == self._made_token else None
        )

    def add_token(self, user: str, role: Role) -> str:
        self._made.write_text(secrets.token_urlsafe(32))
        return self._made_token

    @property
    def _made_token(self) -> str:
        return self._made.read_text()

    def check(self, document: Document) -> None:
        if "run" not in document:
            raise InputError("run: is missing", hint="a shell command line")

    def submit(self, document: Document, snapshot: str, *, owner: str, key: str | None) -> Document:
        with self.lock:
            if key is not None and (owner, key) in self.keys:
                return self.keys[owner, key]
            self.check(document)
            job = {
                "id": str(len(self.submitted) + 1),
                "name": document.get("name", "job"),
                "state": "queued",
                "owner": owner,
                "attempt": 1,
                "elastic": None,
                "devices": [],
                "reason": "",
                "submitted": time.time(),
                "started": None,
                "finished": None,
                "progress": {},
            }
            self.submitted.append(job)
            if key is not None:
                self.keys[owner, key] = job
            return job

    def jobs(self, *, everything: bool, owner: str | None) -> list[Document]:
        if self.broken:
            raise self.broken
        return [
            job
            for job in self.submitted
            if owner in (None, job["owner"]) and (everything or job["state"] not in ENDED)
        ]

    def job(self, name: str, *, owner: str | None) -> Document:
        found = [j for j in self.jobs(everything=True, owner=owner) if name in (j["id"], j["name"])]
        if not found:
            raise UnknownName(f"no job {name}")
        if len(found) > 1:
            raise InputError(f"{len(found)} jobs have that name", hint="use an id")
        story = [
            {"time": 1.0, "event": "submit", "before": "queued", "after": "queued", "text": "came"}
        ]
        spec = JobSpec(found[0]["name"], "python train.py", Path("/work"), Path("/bin/python3"))
        whole = {
            "spec": spec.public_document(),
            "snapshot": "0" * 64,
            "knowledge": None,
            "summary": None,
            "spans": [],
            "story": story,
        }
        return {**found[0], **whole}

    def act(self, job: str, action: Action, arguments: Document, *, user: str) -> Document:
        found = self.submitted[int(job) - 1]
        if found["state"] in ENDED:
            raise Refused(f"job {job} is {found['state']}", hint="it came, it ended")
        found["state"] = AFTER[action] or found["state"]
        found["asked"] = {"action": action, "user": user, **arguments}
        return found

    def explain(self, job: str) -> Document:
        return {"text": "nothing is free", "chosen": None, "alternatives": []}

    def decisions(self) -> list[Document]:
        rows = [
            {"id": j["id"], "owner": j["owner"], "name": j["name"], "devices": [], "text": "waits"}
            for j in self.submitted
        ]
        return [{"time": 1.0, "policy": "fake", "seconds": 0.1, "jobs": rows}]

    def history(self, *, owner: str | None) -> list[Document]:
        cell = {
            "device_type": "t4",
            "devices": 1,
            "nodes": 1,
            "throughput": 64.0,
            "source": "measured",
        }
        return [{"job": job["id"], **cell} for job in self.jobs(everything=True, owner=owner)]

    def queue(self) -> list[Document]:
        waiting = [job for job in self.submitted if job["state"] == "queued"]
        return [
            {
                "id": job["id"],
                "name": job["name"],
                "owner": job["owner"],
                "position": position,
                "waits": "nothing is free",
                "ahead": [other["id"] for other in waiting[: position - 1]],
            }
            for position, job in enumerate(waiting, 1)
        ]

    def nodes(self) -> list[Document]:
        job = self.submitted[0]["id"] if self.submitted else None
        device = {"name": "box/cpu-0", "type": "local-cpu", "emulated": False, "job": job}
        state = "drained" if "box" in self.drained else "up"
        return [{"name": "box", "state": state, "devices": [device]}]

    def drain(self, node: str, on: bool) -> Document:
        (self.drained.add if on else self.drained.discard)(node)
        return self.nodes()[0]

    def logs(self, job: str, attempt: int | None) -> dict[str, Path]:
        folder = self.home / "logs" / job / str(attempt or self.submitted[int(job) - 1]["attempt"])
        return {file.stem: file for file in folder.glob("*.log")}

    def has_snapshot(self, snapshot: str) -> bool:
        return snapshot in self.snapshots

    def put_snapshot(self, snapshot: str, folder: Path) -> None:
        target = self.home / "snapshots" / snapshot
        target.parent.mkdir(exist_ok=True, parents=True)
        shutil.move(folder, target)
        self.snapshots[snapshot] = target

    def health(self) -> Document:
        return {
            "ok": self.well,
            "wrong": None if self.well else "the disk is full",
            "pid": os.getpid(),
        }

    def metrics(self) -> list[Sample]:
        return [Sample("staves_jobs", len(self.submitted), help="Jobs.", labels={"state": "all"})]


class FailingService(FakeService):
    """One that cannot start."""

    def start(self) -> None:
        raise StavesError("the store is damaged", hint="restore it")


class UnwellService(FakeService):
    """One that starts, and is not well."""

    def start(self) -> None:
        self.well = False


def build(
    home: Path,
    cluster: Path | None,
    engine: str,
    policy: str,
    options: Mapping[str, str],
    *,
    quotas: Mapping[str, int] | None = None,
) -> Service:
    service = FakeService(home)
    if policy == "broken":
        service = FailingService(home)
    if policy == "unwell":
        service = UnwellService(home)
    if policy not in ("heet", "broken", "unwell"):
        raise InputError(f"--policy: no policy {policy}", hint="known: heet")
    return service
