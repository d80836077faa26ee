"""What a run keeps on disk: who it is, its generation, its ledger and its logs.

HOME/runs/NAME/run.json            pid, devices, how to reach the supervisor
HOME/runs/NAME/generation.json     the generation in force, synced before it is told
HOME/runs/NAME/ledger.jsonl        what was committed, by generation (or in the checkpoint folder)
HOME/runs/NAME/attempt-N/rank-R.log
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any, BinaryIO

from staves.errors import InputError, StavesError


def staves_home() -> Path:
    """Return the folder of everything Staves keeps: `STAVES_HOME`, or `~/.staves`."""
    return Path(os.environ.get("STAVES_HOME") or Path.home() / ".staves").absolute()


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name

    @classmethod
    def create(cls, home: Path, name: str) -> RunFolder:
        """Make the folder of a new run.

        Raises:
            StavesError: it cannot be written.
        """
        safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:40] or "run"
        path = home / "runs" / f"{time.strftime('%Y%m%d-%H%M%S')}-{safe}-{os.getpid()}"
        try:
            path.mkdir(parents=True, exist_ok=True)
            probe = path / ".writable"
            try:
                probe.write_bytes(b"x" * 4096)
            finally:
                probe.unlink(missing_ok=True)
        except OSError as error:
            with contextlib.suppress(OSError):
                path.rmdir()  # nothing half-made stays
            raise StavesError(
                f"{path}: {error.strerror or error}",
                hint="set STAVES_HOME to a folder with space that you may write",
            ) from None
        return cls(path)

    @classmethod
    def find(cls, home: Path, name: str) -> RunFolder:
        """Return a run by its name, the start of its name, its script's name, or `latest`.

        Raises:
            InputError: there is none, or more than one.
        """
        runs = sorted((home / "runs").glob("*/run.json"))
        folders = [file.parent for file in runs]
        if name == "latest" and folders:
            return cls(folders[-1])
        exact = [folder for folder in folders if folder.name == name]
        near = [
            folder
            for folder in folders
            if folder.name.startswith(name)
            or folder.name.split("-", 2)[2].rpartition("-")[0] == name
        ]
        found = exact or near
        if len(found) > 1:  # the one that still runs is meant
            found = [folder for folder in found if cls(folder).running] or found
        if len(found) == 1:
            return cls(found[0])
        if not found:
            raise InputError(f"{name}: no such run in {home}", hint="`latest` is the newest")
        newest = ", ".join(folder.name for folder in found[-3:])
        raise InputError(f"{name}: {len(found)} runs have that name", hint=f"newest: {newest}")

    @property
    def running(self) -> bool:
        """Whether its supervisor still runs."""
        try:
            pid = int(self.read("run.json")["pid"])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (StavesError, OSError, KeyError, ValueError):
            return False
        return b"staves" in command

    def write(self, name: str, document: dict[str, Any]) -> None:
        """Write a JSON file whole, and have it on disk before returning."""
        part = self.path / f".{name}.part"
        with part.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(json.dumps(document, indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        part.rename(self.path / name)

    def read(self, name: str) -> dict[str, Any]:
        """Read a JSON file of the run.

        Raises:
            StavesError: it is absent or damaged.
        """
        try:
            document: dict[str, Any] = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError) as error:
            raise StavesError(f"{self.path / name}: {error}") from None
        return document

    def logs(self, attempt: int) -> Path:
        """Return the folder of an attempt's logs."""
        return self.path / f"attempt-{attempt}"


class LedgerFile:
    """The ledger on disk: JSON lines, appended.

    A last line that an earlier supervisor's death cut short is taken away: nobody was told of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("ab")
        if self._file.tell() > 0:
            whole = path.read_bytes().rfind(b"\n") + 1
            if whole < self._file.tell():
                self._file.truncate(whole)

    def append(self, row: dict[str, Any], *, sync: bool = False) -> None:
        """Append a row; `sync` has it on disk before returning."""
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        if sync:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a ledger; a last line that was cut short is left out.

    Raises:
        StavesError: it is absent, or a line that is not the last is damaged.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise StavesError(f"{path}: {error.strerror or error}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            rows.append(json.loads(line))
        except ValueError:
            if number == len(lines):
                break
            raise StavesError(f"{path}:{number}: not a JSON row") from None
    return rows
