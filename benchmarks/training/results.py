"""A folder of runs, one file each: an interruption loses the run under way and no other."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.training.frozen import fingerprint

Run = dict[str, Any]


class Results:
    """Runs that were made are read, others are made and kept.

    Args:
        folder: of the files; those of another declaration are made anew.
        again: names of systems whose runs are made anew.

    Attributes:
        cpu_seconds: that the runs taken so far have cost, whenever they were made.
    """

    def __init__(self, folder: Path, again: tuple[str, ...] = ()) -> None:
        self._folder, self._again = folder, again
        self._declaration = fingerprint()
        self._taken: set[Path] = set()
        self.cpu_seconds = 0.0

    def run(self, names: tuple[str, ...], make: Callable[[], Run]) -> Run:
        """Return the run of these names: workload, mix, seed, system or so."""
        path = self._folder.joinpath(*(_plain(name) for name in names)).with_suffix(".json")
        run = self._kept(path, names) or self._made(path, names, make)
        if path not in self._taken:
            self._taken.add(path)
            self.cpu_seconds += run["cpu_seconds"]
        return run

    def _kept(self, path: Path, names: tuple[str, ...]) -> Run | None:
        if not path.exists() or (names[-1] in self._again and path not in self._taken):
            return None
        kept: Run = json.loads(path.read_text())
        return kept if kept["declaration"] == self._declaration else None

    def _made(self, path: Path, names: tuple[str, ...], make: Callable[[], Run]) -> Run:
        print(f"benchmarks: {', '.join(names)} ...", file=sys.stderr, flush=True)
        started = time.process_time()
        run = make()
        run |= {"cpu_seconds": time.process_time() - started, "declaration": self._declaration}
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(run))
        unfinished.replace(path)
        return run


def _plain(name: str) -> str:
    return name.replace(":", "-").replace(" ", "-")
