"""How an attempt stands, as its workers tell it: kept in `status.json` for whoever asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

_EVERY = 0.3  # seconds between two writes where only progress was made

_OF_PROGRESS = (
    "step", "epoch", "samples", "total_samples", "batch", "loss", "local_batches",
    "predicted_step_seconds", "even_step_seconds", "even_step_source", "metrics",
)  # fmt: skip
_OF_AN_ADAPTIVE_BATCH = ("noise_scale", "goodput", "learning_rate_factor", "reference_steps")
_OF_A_SPAN = (
    "local_batches", "predicted_step_seconds", "even_step_seconds", "even_step_source",
    "pause_seconds",
)  # fmt: skip


class StatusFile:
    """Hears the messages of workers, and writes what they come to.

    Args:
        write: puts a document in its place, whole.
        devices: on which workers are started.
        elastic: whether the command trains with staves, where that is known.
    """

    def __init__(
        self,
        write: Callable[[dict[str, Any]], None],
        devices: Sequence[str],
        *,
        elastic: bool | None = None,
    ) -> None:
        self._write = write
        self._spans: list[dict[str, Any]] = []
        self._document: dict[str, Any] = {
            "elastic": elastic,
            "request": 0,
            "wanted": list(devices),
            "devices": list(devices),
            "generation": 0,
            "unusable": [],
            "pending": "",
            "progress": {},
            "knowledge": None,
            "spans": self._spans,
        }
        self._changed, self._progressed = True, False
        self._written = 0.0

    def resized(self, request: int, wanted: Sequence[str]) -> None:
        """A resize was taken."""
        self._document |= {"request": request, "wanted": list(wanted)}
        self._changed = True

    def message(self, rank: int, message: dict[str, Any]) -> None:
        """Take in a worker's message; `rank` is its rank by now."""
        kind = message["kind"]
        if kind == "hello" and not self._document["elastic"]:
            self._document["elastic"] = not message["fixed"]
            self._changed = True
        elif kind == "formed" and message["rank"] == 0:
            self._formed(message)
        elif kind == "progress":
            self._progress(message)
        elif kind == "knowledge":
            self._document["knowledge"] = message["knowledge"]
            self._changed = True

    def unusable(self, devices: Sequence[str]) -> None:
        """Some of the devices that it was told to have cannot be used now."""
        if self._document["unusable"] != list(devices):
            self._document["unusable"] = list(devices)
            self._changed = True

    def pending(self, reason: str) -> None:
        """Some of its workers have not started, for that reason; empty where none are awaited."""
        if self._document["pending"] != reason:
            self._document["pending"] = reason
            self._changed = True

    def flush(self) -> None:
        """Write what has changed, progress only now and then."""
        now = time.monotonic()
        if self._changed or (self._progressed and now - self._written >= _EVERY):
            self._write(self._document)
            self._changed, self._progressed, self._written = False, False, now

    def close(self, *, finished: bool) -> None:
        """Nothing trains any more; `finished`: the command has come to its end well."""
        self._end_span()
        if finished and self._document["elastic"] is None:
            self._document["elastic"] = False
        self._changed = True
        self.flush()

    def _formed(self, message: dict[str, Any]) -> None:
        self._end_span()
        if self._spans:
            # What of it stands; a rank 0 that has left did not tell its last steps.
            before = self._spans[-1]
            before["steps"] = max(0, message["step"] - before["first_step"])
        self._document |= {"generation": message["generation"], "devices": message["devices"]}
        self._spans.append(
            {
                "generation": message["generation"],
                "devices": message["devices"],
                "since": time.time(),
                "until": None,
                "first_step": message["step"],
                "steps": 0,
                "step_seconds": None,
                **dict.fromkeys(_OF_A_SPAN),
            }
        )
        self._changed = True

    def _progress(self, message: dict[str, Any]) -> None:
        seconds = message["step_seconds"]
        progress = {name: message[name] for name in _OF_PROGRESS}
        progress |= {name: message.get(name) for name in _OF_AN_ADAPTIVE_BATCH}
        progress["step_seconds"] = None if seconds is None else seconds["p50"]
        self._document["progress"] = progress
        self._progressed = True
        span = self._spans[-1] if self._spans else None
        if span is None or span["generation"] != message["generation"]:
            return  # the last word of a rank that has left
        span |= {name: message[name] for name in _OF_A_SPAN}
        span["steps"] = message["step"] - span["first_step"]
        if message["plan_step_seconds"] is not None:
            span["step_seconds"] = message["plan_step_seconds"]["p50"]

    def _end_span(self) -> None:
        if self._spans and self._spans[-1]["until"] is None:
            self._spans[-1]["until"] = time.time()
