"""How long starts and changes take, learned from those that have happened."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any


class _Seen:
    """The last times seen, and a declared guess before the first."""

    def __init__(self, guess: float, keep: int) -> None:
        self._guess = guess
        self._kept: deque[float] = deque(maxlen=keep)

    @property
    def median(self) -> float:
        return median(self._kept) if self._kept else self._guess

    def take(self, seconds: float) -> None:
        self._kept.append(max(0.0, seconds))


class Pauses:
    """Medians of the last pauses seen, over all jobs; a declared guess before the first.

    Args:
        start: seconds from a launch to the first step, until one has been seen.
        resize: seconds that training stands still for a change in place, until one has been seen.
        delay: seconds from a grant in place until other devices are at work, until one has been
            seen. The job trains on meanwhile.
        keep: how many count.
    """

    def __init__(
        self, *, start: float = 5.0, resize: float = 0.5, delay: float = 5.0, keep: int = 25
    ) -> None:
        self._start, self._resize, self._delay = (
            _Seen(guess, keep) for guess in (start, resize, delay)
        )

    @property
    def start(self) -> float:
        """Seconds that a start takes."""
        return self._start.median

    @property
    def resize(self) -> float:
        """Seconds that training stands still for a change in place."""
        return self._resize.median

    @property
    def delay(self) -> float:
        """Seconds from a grant in place until it is in force."""
        return self._delay.median

    def started(self, seconds: float) -> None:
        """Take in a start: from the grant to the first step."""
        self._start.take(seconds)

    def in_force(self, seconds: float) -> None:
        """Take in a change that brought devices: from the grant until these were at work."""
        self._delay.take(seconds)

    def stood_still(self, spans: Sequence[Mapping[str, Any]], taken: int) -> int:
        """Take in how long an attempt stood still before each of its spans, as of `Status.spans`.

        Args:
            spans: all of them so far.
            taken: how many of them have been taken in.

        Returns: how many have been now; the last is not until its first step is done.
        """
        for number, span in enumerate(spans[taken:], start=taken):
            seconds = span.get("pause_seconds")
            if number and seconds is not None:  # before the first one came the start
                self._resize.take(float(seconds))
            elif number and number + 1 == len(spans):
                return number
        return len(spans)
