"""Which Slurm jobs a supervisor has submitted: a file that is locked for as long as it lives."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from staves.locks import is_locked


class Notes:
    """The notes of this process, in a folder where other supervisors keep theirs.

    Args:
        folder: made when it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._descriptor, path = tempfile.mkstemp(prefix="supervisor-", dir=folder)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        # It appears with its lock held: nobody takes it for that of one who has died.
        self._path = Path(path).rename(f"{path}.jobs")

    def add(self, agent: str, job: str) -> None:
        """Note a job that was submitted for an agent."""
        os.write(self._descriptor, f"{agent} {job}\n".encode())

    def orphans(self) -> Iterator[tuple[str, str]]:
        """Yield (agent, job) of supervisors that have died; each file goes when it is through."""
        for path in self._folder.glob("*.jobs"):
            if path != self._path and not is_locked(path):
                for line in path.read_text().split("\n")[:-1]:
                    agent, job = line.split(" ")
                    yield agent, job
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Forget them: all have been ended."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
