"""What an attempt of a job keeps on disk: all that another process needs to know of it.

HOME/jobs/JOB/attempts/N/launch.json      what was asked for, synced before anything is started
HOME/jobs/JOB/attempts/N/claim            made by its one supervisor, and locked while that lives
HOME/jobs/JOB/attempts/N/workers.jsonl    process ids and start times of its workers
HOME/jobs/JOB/attempts/N/wanted.json      the newest resize that was asked for
HOME/jobs/JOB/attempts/N/stop.json        that it was told to stop
HOME/jobs/JOB/attempts/N/status.json      how it stands
HOME/jobs/JOB/attempts/N/outcome.json     how it ended, synced; nothing of it runs any more
HOME/jobs/JOB/attempts/N/logs/rank-R.log  what its workers printed
HOME/jobs/JOB/attempts/N/supervisor.log   what its supervisor printed

The files of a run (`RunFolder`) are there too.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from staves.engines._base import Ended, Launch
from staves.engines.local._devices import from_document, to_document
from staves.engines.local._folder import RunFolder
from staves.engines.local._sessions import Session, end_sessions
from staves.errors import InputError
from staves.locks import is_locked

_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class AttemptFolder(RunFolder):
    """The folder of one attempt; nothing needs to be in it yet."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.name = f"{path.parent.parent.name}/{path.name}"

    @classmethod
    def of(cls, home: Path, job: str, attempt: int) -> AttemptFolder:
        """Return the folder of that attempt.

        Raises:
            InputError: the job's id can be no folder's name.
        """
        if not _JOB.fullmatch(job):
            raise InputError(f"{job!r} is no id of a job")
        return cls(home / "jobs" / job / "attempts" / str(attempt))

    def earlier(self) -> Iterator[AttemptFolder]:
        """Yield the attempts of the job before this one."""
        for path in self.path.parent.glob("*"):
            if path.name.isdigit() and int(path.name) < int(self.path.name):
                yield AttemptFolder(path)

    def logs(self, attempt: int) -> Path:
        """Return the folder of its logs, one for all that is started within it."""
        return self.path / "logs"

    def read_if_there(self, name: str) -> dict[str, Any] | None:
        """Return a JSON file of the attempt, or None where there is none (yet).

        Raises:
            StavesError: it is damaged.
        """
        return self.read(name) if (self.path / name).exists() else None

    # -- who supervises it

    def claim(self) -> int | None:
        """Become its supervisor: return a descriptor that holds the lock, or None: another has.

        The claim appears with its lock held, and is there for good: an attempt runs once.
        """
        descriptor, own = tempfile.mkstemp(prefix="claim.", dir=self.path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.link(own, self.path / "claim")
        except FileExistsError:
            os.close(descriptor)
            return None
        finally:
            os.unlink(own)  # noqa: PTH108
        return descriptor

    @property
    def claimed(self) -> bool:
        """Whether somebody has ever been its supervisor."""
        return (self.path / "claim").exists()

    @property
    def ended(self) -> bool:
        """Whether it has said how it ended."""
        return (self.path / "outcome.json").exists()

    @property
    def supervised(self) -> bool:
        """Whether its supervisor lives."""
        return is_locked(self.path / "claim")

    # -- what it has started

    def started(self, pid: int) -> None:
        """Note a worker that was started in a session of its own."""
        with (self.path / "workers.jsonl").open("a") as file:
            file.write(Session.of(pid).to_line() + "\n")

    def clean(self) -> None:
        """End what is left of workers whose supervisor has died."""
        file = self.path / "workers.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        end_sessions([Session.from_line(line) for line in lines], mark=str(self.path))

    # -- what was asked of it, and how it ended

    def write_launch(self, launch: Launch, local_ranks: dict[str, int]) -> None:
        """Have it on disk."""
        self.path.mkdir(parents=True, exist_ok=True)
        document = {
            "job": launch.job,
            "attempt": launch.attempt,
            "command": launch.command,
            "devices": [to_document(device) for device in launch.devices],
            "local_ranks": local_ranks,
            "workdir": str(launch.workdir),
            "environ": dict(launch.environ),
            "per_device": launch.per_device,
            "minimum": launch.minimum,
            "grace": launch.grace,
            "checkpoint": None if launch.checkpoint is None else str(launch.checkpoint),
            "checkpoint_every": launch.checkpoint_every,
        }
        self.write("launch.json", document)
        for folder in (self.path, *list(self.path.parents)[:3]):
            _sync(folder)  # the names as well

    def read_launch(self) -> tuple[Launch, dict[str, int]]:
        """Return what `write_launch` wrote."""
        document = self.read("launch.json")
        local_ranks: dict[str, int] = document.pop("local_ranks")
        checkpoint = document.pop("checkpoint")
        launch = Launch(
            **document
            | {
                "devices": tuple(map(from_document, document["devices"])),
                "workdir": Path(document["workdir"]),
                "checkpoint": None if checkpoint is None else Path(checkpoint),
            }
        )
        return launch, local_ranks

    def write_ended(self, ended: Ended) -> None:
        """Have on disk how it ended."""
        self.write(
            "outcome.json",
            {
                "end": ended.end,
                "reason": ended.reason,
                "status": ended.status,
                "figures": dict(ended.figures),
            },
        )
        _sync(self.path)


def newest_attempt(home: Path, job: str) -> AttemptFolder | None:
    """Return the newest attempt of a job that has trained, or None where there is none."""
    if not _JOB.fullmatch(job):
        return None
    paths = (home / "jobs" / job / "attempts").glob("*/ledger.json")
    numbers = [int(path.parent.name) for path in paths]
    return AttemptFolder.of(home, job, max(numbers)) if numbers else None


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
