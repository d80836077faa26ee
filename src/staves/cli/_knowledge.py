"""What runs of a script have learned of devices, kept in their folders for the next run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from staves.engines.local import RunFolder

KNOWLEDGE = "knowledge.json"
_RECENT = 100  # runs that are looked through

Message = dict[str, Any]
Listener = Callable[[int, Message], None]


class Learned:
    """Hears what rank 0 tells, and keeps it in the run's folder.

    Args:
        folder: of the run.
        script: which runs.
        emulated: whether a device is: then nothing counts before `ended` has said that it may.
    """

    def __init__(self, folder: RunFolder, script: Path, *, emulated: bool) -> None:
        self.first_batch: int | None = None
        self.batch: int | None = None
        self.step = 0
        self.step_seconds: float | None = None
        self.caps: dict[int, int] = {}
        """The most samples at once of the ranks that ran out of memory."""
        self.knowledge: Mapping[str, Any] | None = None
        self._folder, self._script = folder, script
        self._void: bool | None = None if emulated else False

    def and_then(self, listener: Listener) -> Listener:
        """Return a listener that hears a message after this has taken it in."""

        def both(rank: int, message: Message) -> None:
            self.message(rank, message)
            listener(rank, message)

        return both

    def message(self, rank: int, message: Message) -> None:
        """Take in a worker's message."""
        if message["kind"] == "progress":
            self.batch, self.step = message["batch"], message["step"]
            self.first_batch = self.first_batch or self.batch
            seconds = message["step_seconds"]
            self.step_seconds = None if seconds is None else seconds["p50"]
        elif message["kind"] == "say" and "cap" in message:
            self.caps[rank] = message["cap"]
        elif message["kind"] == "knowledge" and message["knowledge"]["lines"]:
            self.knowledge = message["knowledge"]
            self._write()

    def ended(self, *, void: bool) -> None:
        """The run is over; `void`: too many steps of its emulated devices were late."""
        self._void = void
        if self.knowledge is not None:
            self._write()

    def _write(self) -> None:
        document = {
            "script": str(self._script.resolve()),
            "batch": self.first_batch,
            "void": self._void,
            "knowledge": self.knowledge,
        }
        self._folder.write(KNOWLEDGE, document)


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """What an earlier run of a script has learned: its name, the batch that it started with, and
    its knowledge."""

    run: str
    batch: int
    knowledge: Mapping[str, Any]


def earlier_run(home: Path, script: Path, batch: int) -> EarlierRun | None:
    """Return the newest run of the script that has learned something, and started with a batch of
    so many samples; None where there is none.

    What cannot be read counts as absent, and so do runs of emulated devices that are void, or
    ended before that was known: it only tells what to expect.
    """
    wanted = str(script.resolve())
    for path in sorted((home / "runs").glob(f"*/{KNOWLEDGE}"), reverse=True)[:_RECENT]:
        try:
            document = json.loads(path.read_bytes())
            alike = document["script"] == wanted and document["batch"] == batch
            if alike and document["void"] is False:
                return EarlierRun(path.parent.name, batch, dict(document["knowledge"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None
