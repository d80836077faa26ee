"""Runs of simulations, kept as lines of JSON, so that none that is there already is made again."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

Run = Mapping[str, Any]
Key = tuple[Hashable, ...]


class Kept:
    """Runs by key.

    Args:
        file: where they are and come to be; None: they are kept in memory only.
        key: that of a run; of equal ones the last counts.
    """

    def __init__(self, file: Path | None, key: Callable[[Run], Key]) -> None:
        self._file, self._key = file, key
        lines = file.read_text(encoding="utf-8").splitlines() if file and file.exists() else ()
        self._runs: dict[Key, Run] = {key(run): run for run in map(json.loads, lines)}

    def __contains__(self, key: Key) -> bool:
        return key in self._runs

    def __getitem__(self, key: Key) -> Run:
        return self._runs[key]

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: Run) -> None:
        """Keep a run that has just ended, but not its jobs."""
        told = {name: value for name, value in run.items() if name != "jobs"}
        self._runs[self._key(told)] = told
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(told) + "\n")
