"""How long starts and changes take, learned from those that have happened."""

from __future__ import annotations

from collections import deque
from statistics import median


class Pauses:
    """Medians of the last pauses seen, over all jobs; a declared guess before the first.

    Args:
        start: seconds from a launch to the first step, until one has been seen.
        resize: seconds from a grant until other devices are at work, until one has been seen.
        keep: how many count.
    """

    def __init__(self, *, start: float = 5.0, resize: float = 0.5, keep: int = 25) -> None:
        self._start: deque[float] = deque([start], maxlen=keep)
        self._resize: deque[float] = deque([resize], maxlen=keep)
        self._fresh = {"start", "resize"}

    @property
    def start(self) -> float:
        """Seconds that a start takes."""
        return median(self._start)

    @property
    def resize(self) -> float:
        """Seconds from a grant in place until it is in force."""
        return median(self._resize)

    def started(self, seconds: float) -> None:
        """Take in a start: from the grant to the first step."""
        self._seen("start", self._start, seconds)

    def resized(self, seconds: float) -> None:
        """Take in a change in place."""
        self._seen("resize", self._resize, seconds)

    def _seen(self, name: str, kept: deque[float], seconds: float) -> None:
        if name in self._fresh:  # the guess has served
            self._fresh.discard(name)
            kept.clear()
        kept.append(max(0.0, seconds))
