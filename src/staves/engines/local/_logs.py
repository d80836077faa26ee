"""What workers print: a file for each attempt and rank, kept after they are gone."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

_LINKS = ("During handling of the above", "The above exception was", "Original Traceback")
"""What stands between a traceback and that of its cause."""


class LogFolder:
    """The folder of one attempt of one run: `HOME/runs/NAME/attempt-N/rank-R.log`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._broken = False

    def path(self, name: str) -> Path:
        """Return the file of that rank."""
        return self.folder / f"{name}.log"

    def write(self, name: str, data: bytes) -> str | None:
        """Append to a rank's log; return a warning the first time that this fails.

        A full disk must not end the training: the lines are lost, and that is said.
        """
        try:
            if name not in self._files:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._files[name] = self.path(name).open("ab", buffering=0)
            self._files[name].write(data)
        except OSError as error:
            if not self._broken:
                self._broken = True
                return f"{self.path(name)}: {error.strerror}: log lines are being lost"
        return None

    def tail(self, name: str, lines: int) -> str:
        """Return the last traceback in a rank's log, or its last lines where there is none."""
        try:
            text = self.path(name).read_bytes().decode(errors="replace")
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
