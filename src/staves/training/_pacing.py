"""Emulated devices: hold real work back to declared durations.

A device profile declares how long a forward and a backward pass take. The pacer waits: before the
backward pass until the declared forward time has gone, and in the communication hook until each
gradient bucket is due (the backward time spread over the buckets by their bytes). Between nodes
that declare a link, reduced buckets are held back to it (`_links.py`). Data, gradients, collectives
and membership stay real; only *durations* are declared.

Real work that is late cannot be paced: that is a missed deadline. Figures with more than
`staves.hardware.MISSES_ALLOWED` of their steps missed are void.
"""

from __future__ import annotations

import time

from staves.hardware import DeviceProfile
from staves.training._links import Link


class Pacer:
    """Hold one device's steps to its profile; times are `time.perf_counter` seconds.

    Attributes:
        steps: that were counted.
        missed: of these, with a missed deadline.
        late_seconds: by which waits began too late, all together.
        link: over which gradients go; None: over this machine's memory alone.
    """

    def __init__(self, profile: DeviceProfile) -> None:
        self.profile = profile
        self.steps = 0
        self.missed = 0
        self.late_seconds = 0.0
        self.link: Link | None = None
        self._origin = 0.0
        self._length = 0.0
        self._late = False

    def begin(self, started: float) -> None:
        """A step (or a further micro-step) began at `started`."""
        self._origin = started

    def forward(self, samples: int) -> None:
        """Wait until the forward pass of `samples` is due; the backward pass begins there."""
        self._origin = self._wait(self._origin + self.profile.forward.seconds(samples))
        self._length = self.profile.backward.seconds(samples)

    def bucket(self, share: float) -> None:
        """Wait until `share` of the backward pass is due."""
        self._wait(self._origin + share * self._length)

    def backward(self) -> None:
        """Wait until the whole backward pass is due (for a micro-step that reduces nothing)."""
        self.begin(self._wait(self._origin + self._length))

    def end(self, *, counted: bool) -> None:
        """The step is over: count it and its missed deadline (not the first ones, which set up)."""
        self.steps += counted
        self.missed += counted and self._late
        self._late = False

    def _wait(self, due: float) -> float:
        """Sleep until `due` and return it; where that has passed, note the miss and return now."""
        now = time.perf_counter()
        if now > due:
            self._late = True
            self.late_seconds += now - due
            return now
        time.sleep(due - now)
        return due
