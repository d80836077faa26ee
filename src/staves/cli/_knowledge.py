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
    """

    def __init__(self, folder: RunFolder, script: Path) -> None:
        self.batch: int | None = None
        self.step = 0
        self.step_seconds: float | None = None
        self.caps: dict[int, int] = {}
        """The most samples at once of the ranks that ran out of memory."""
        self.knowledge: Mapping[str, Any] | None = None
        self._folder, self._script = folder, script

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
            seconds = message["step_seconds"]
            self.step_seconds = None if seconds is None else seconds["p50"]
        elif message["kind"] == "say" and "cap" in message:
            self.caps[rank] = message["cap"]
        elif message["kind"] == "knowledge" and message["knowledge"]["lines"]:
            self.knowledge = message["knowledge"]
            self._folder.write(
                KNOWLEDGE,
                {
                    "script": str(self._script.resolve()),
                    "batch": self.batch,
                    "knowledge": self.knowledge,
                },
            )


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """What an earlier run of a script has learned: its name, its batch, and its knowledge."""

    run: str
    batch: int
    knowledge: Mapping[str, Any]


def earlier_run(home: Path, script: Path) -> EarlierRun | None:
    """Return the newest run of the script that has learned something; None where there is none.

    What cannot be read counts as absent: it only tells what to expect.
    """
    wanted = str(script.resolve())
    for path in sorted((home / "runs").glob(f"*/{KNOWLEDGE}"), reverse=True)[:_RECENT]:
        try:
            document = json.loads(path.read_bytes())
            if document["script"] == wanted:
                batch, knowledge = int(document["batch"]), dict(document["knowledge"])
                return EarlierRun(path.parent.name, batch, knowledge)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None
