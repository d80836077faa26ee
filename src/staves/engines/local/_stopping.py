"""A supervisor that is told to stop: whom to ask for a checkpoint, and until when to wait."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

GRACE_SECONDS = 5.0
"""How long a worker that was asked to end may take when the run ends, unless that is told."""
_LAST_WORDS = 1.0  # seconds, at least


class Stopping:
    """Whether and how the run is to end. Told again, it only becomes more urgent.

    The checkpoint is rank 0's at its next step boundary, where it stays: without its gradients
    nobody commits a further step, so that boundary is the run's last on every rank, and no rank has
    to agree to it. If rank 0 is lost before it is known to have saved, the next generation's rank 0
    is asked in its place.

    Args:
        grace: seconds that a checkpoint may take after a signal.
        save_on_signal: whether a signal calls for one.
        say: called with a line for people.
    """

    def __init__(self, *, grace: float, save_on_signal: bool, say: Callable[[str], None]) -> None:
        self.signal: int | None = None
        """The signal that told it."""
        self.until = math.inf
        """When all is ended by force, in seconds of the monotonic clock."""
        self._grace, self._save_on_signal, self._say = grace, save_on_signal, say
        self._told = self._save = self._ending = False
        self._ending_since = 0.0
        self._signals = self._heeded = 0
        self._asked: dict[int, int] = {}  # members, and the newest generation in which each was

    def tell(self, *, save: bool, grace: float) -> None:
        """End within `grace` seconds; `save`: with a checkpoint of the next step boundary."""
        self._save = save and (self._save or not self._told)
        self._told = True
        self.until = min(self.until, time.monotonic() + grace)

    def signalled(self, number: int) -> None:
        """A signal has come. Called at any point of the program: it only takes note."""
        self.signal = self.signal or number
        self._signals += 1

    def due(self, members: Sequence[int], generation: int) -> Literal["end"] | int | None:
        """Return what is to be done now: end, or ask that member for a checkpoint."""
        if self._signals > self._heeded:
            self._heed()
        if not self._told:
            return None
        if not self._save or not members or time.monotonic() >= self.until:
            return "end"
        if self._asked.get(members[0]) == generation:
            return None
        self._asked[members[0]] = generation
        return members[0]

    def saved(self, member: int, message: dict[str, Any]) -> bool | None:
        """Return whether all is saved now (False: it cannot be); None from one not asked."""
        # One that a planned change is about to replace stays at its boundary all the same.
        return bool(message["saved"]) if member in self._asked else None

    def begin_to_end(self) -> None:
        """The run ends now, for whatever reason: a further signal hurries that."""
        self._ending, self._ending_since = True, time.monotonic()
        self._heeded = self._signals
        if not self._told or self.signal is not None:
            self.until = time.monotonic() + GRACE_SECONDS

    @property
    def patience(self) -> float:
        """Seconds to wait for the end of workers that have been asked to end."""
        return 0.0 if self._hurried else max(self.until - time.monotonic(), 0.0)

    def leave_patience(self) -> float:
        """Seconds to wait for workers to leave by themselves; some are left to end them then."""
        most = self._ending_since + GRACE_SECONDS - time.monotonic()
        return min(self.patience - _LAST_WORDS, most)

    @property
    def _hurried(self) -> bool:
        return self._ending and self._signals > self._heeded

    def _heed(self) -> None:
        again, self._heeded = self._heeded > 0, self._signals
        if self._save_on_signal and not again:
            self._say("saving a checkpoint; another signal ends the run without one")
        self.tell(save=self._save_on_signal and not again, grace=self._grace)
