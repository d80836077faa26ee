"""What workers print: a file for each attempt and rank, kept after they are gone."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import BinaryIO

from staves.errors import StavesError


def staves_home() -> Path:
    """Return the folder of everything Staves keeps: `STAVES_HOME`, or `~/.staves`."""
    return Path(os.environ.get("STAVES_HOME") or Path.home() / ".staves").absolute()


_LINKS = ("During handling of the above", "The above exception was", "Original Traceback")
"""What stands between a traceback and that of its cause."""


class LogFolder:
    """The folder of one attempt of one run: `HOME/runs/NAME/attempt-N/rank-R.log`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[int, BinaryIO] = {}
        self._broken = False

    @classmethod
    def create(cls, home: Path, name: str, attempt: int = 1) -> LogFolder:
        """Make the folder of a new run.

        Raises:
            StavesError: it cannot be written.
        """
        safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:40] or "run"
        run = f"{time.strftime('%Y%m%d-%H%M%S')}-{safe}-{os.getpid()}"
        folder = home / "runs" / run / f"attempt-{attempt}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / ".writable"
            probe.write_bytes(b"x" * 4096)
            probe.unlink()
        except OSError as error:
            raise StavesError(
                f"{folder}: {error.strerror or error}",
                hint="set STAVES_HOME to a folder with space that you may write",
            ) from None
        return cls(folder)

    def path(self, rank: int) -> Path:
        """Return the file of that rank."""
        return self.folder / f"rank-{rank}.log"

    def write(self, rank: int, data: bytes) -> str | None:
        """Append to a rank's log; return a warning the first time that this fails.

        A full disk must not end the training: the lines are lost, and that is said.
        """
        try:
            if rank not in self._files:
                self._files[rank] = self.path(rank).open("ab", buffering=0)
            self._files[rank].write(data)
        except OSError as error:
            if not self._broken:
                self._broken = True
                return f"{self.path(rank)}: {error.strerror}: log lines are being lost"
        return None

    def tail(self, rank: int, lines: int) -> str:
        """Return the last traceback in a rank's log, or its last lines where there is none."""
        try:
            text = self.path(rank).read_bytes().decode(errors="replace")
        except OSError:
            return ""
        printed = text.splitlines()
        starts = [i for i, line in enumerate(printed) if "Traceback (most recent call" in line]
        if not starts:
            return "\n".join(printed[-lines:])
        first = starts.pop()
        while starts and any(
            link in line for line in printed[starts[-1] : first + 1] for link in _LINKS
        ):
            first = starts.pop()
        return "\n".join(printed[first:])

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()
