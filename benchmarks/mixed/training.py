"""A real elastic job on emulated devices, told which devices to have."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import staves
from staves.engines._base import Engine, Launch, Status
from staves.engines.local import LocalEngine
from staves.errors import StavesError
from staves.hardware import Cluster, Device

PATIENCE = 300.0  # seconds that any one stretch may take
SCRIPT = Path(__file__).parents[1] / "scripts" / "mixed_job.py"

Found = TypeVar("Found")

Row = Mapping[str, Any]
"""One step, as the script writes it."""


class Training:
    """One job over its attempts, in a folder of its own.

    Args:
        home: of all that Staves keeps.
        engine: of emulated devices; a cluster, for the local one.
        batch: samples a step.
        width: of the model's hidden layers, which are six.
    """

    def __init__(
        self, home: Path, engine: Engine | Cluster, batch: int, *, width: int = 256
    ) -> None:
        self._home, self._batch, self._width = home, batch, width
        self._engine = LocalEngine(home, engine) if isinstance(engine, Cluster) else engine
        self._attempt = self._request = 0

    def start(self, devices: Sequence[Device]) -> None:
        """Begin an attempt, from where the last one was saved."""
        self._attempt += 1
        self._request = 0
        options = {"--batch": str(self._batch), "--rows": str(self._rows_of(self._attempt))}
        options["--width"] = str(self._width)
        words = [sys.executable, str(SCRIPT), *(word for pair in options.items() for word in pair)]
        launch = Launch(
            "mixed",
            self._attempt,
            shlex.join(words),
            tuple(devices),
            workdir=self._home,
            environ=_environ(),
            checkpoint=self._home / "checkpoints",
        )
        self._engine.launch(launch)

    def resize(self, devices: Sequence[Device]) -> None:
        """Have it train on these devices from its next possible step on."""
        self._request += 1
        self._engine.resize("mixed", self._attempt, devices, self._request)

    def steps(self, devices: Sequence[Device], count: int) -> list[Row]:
        """Wait until so many steps were made on these devices by a split that was computed; return
        all rows on them."""
        names = {device.name for device in devices}

        def found() -> list[Row] | None:
            own = [row for row in self._rows() if set(row["devices"]) == names]
            return own if sum(row["stage"] == "optimal" for row in own) >= count else None

        return self._wait(found, f"{count} steps on {', '.join(sorted(names))}")

    def learned(self) -> Mapping[str, Any]:
        """Return what the job has learned of its devices."""
        return self._wait(lambda: self._status().knowledge, "the job's knowledge")

    def stop(self) -> None:
        """End the attempt with its state saved."""
        self._engine.stop("mixed", self._attempt, save=True, grace=PATIENCE)
        self._wait(lambda: self._status().ended, "the attempt's end", running=False)

    def abandon(self) -> None:
        """Leave nothing running."""
        if self._attempt and self._status().ended is None:
            self._engine.stop("mixed", self._attempt, save=False, grace=0.0)
            self._wait(lambda: self._status().ended, "the attempt's end", running=False)

    @property
    def missed(self) -> tuple[int, int]:
        """Steps of all emulated devices over all attempts, and those of them that were late."""
        lines = [line for n in range(1, self._attempt + 1) for line in self._lines(n)]
        return (
            sum(len(line["devices"]) for line in lines if "devices" in line),
            sum(line.get("missed", 0) for line in lines),
        )

    def _rows_of(self, attempt: int) -> Path:
        return self._home / f"rows-{attempt}.jsonl"

    def _lines(self, attempt: int) -> list[Mapping[str, Any]]:
        path = self._rows_of(attempt)
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def _rows(self) -> list[Row]:
        return [line for line in self._lines(self._attempt) if "devices" in line]

    def _status(self) -> Status:
        return self._engine.status("mixed", self._attempt)

    def _wait(self, look: Callable[[], Found | None], what: str, *, running: bool = True) -> Found:
        until = time.monotonic() + PATIENCE
        while (found := look()) is None:
            status = self._status()
            if running and (status.ended is not None or status.phase == "lost"):
                raise StavesError(f"the job has ended before {what}: {status.ended}")
            if time.monotonic() > until:
                raise StavesError(f"{what}: not within {PATIENCE:g} s")
            time.sleep(0.1)
        return found


def _environ() -> dict[str, str]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("STAVES_")}
    paths = [str(Path(staves.__file__).parents[1]), environ.get("PYTHONPATH", "")]
    return environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
