"""Steps that the host held up: how long, and which of them a fit must not see.

Other processes on the same cores make single steps longer, and no line through such a step tells
how fast the device is. Where most steps are held up, though, that is the device's speed now; not
so for an emulated device, whose speed is declared.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

from staves.training._timing import StepRecord

SPOILED = 0.05
"""A step is spoiled when the host kept it waiting for more than this share of its computing."""
_WINDOW = 16  # steps: where most of these were spoiled, spoiled is how the device is


def run_delay(path: Path = Path("/proc/thread-self/schedstat")) -> Callable[[], float]:
    """Return a reader of the seconds that the calling thread has been ready, but not running.

    Linux counts them (the second number of schedstat, ns). Where it does not tell, always 0. The
    thread is the one that calls this.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return lambda: 0.0

    def read() -> float:
        try:
            return int(os.pread(descriptor, 96, 0).split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0  # a kernel without the count

    return read


class Sieve:
    """Tell steps that are fit for fitting from spoiled ones.

    Args:
        declared: the device's speed is declared: steps held up never tell it, however many.

    Attributes:
        dropped: steps left out so far.
    """

    def __init__(self, *, declared: bool = False) -> None:
        self.declared = declared
        self.dropped = 0
        self._recent: deque[bool] = deque(maxlen=_WINDOW)

    def admits(self, record: StepRecord) -> bool:
        """Whether the step counts for fits; to be asked once for every step."""
        spoiled = record.delay > SPOILED * record.compute
        self._recent.append(spoiled)
        passes = not spoiled or (not self.declared and 2 * sum(self._recent) > _WINDOW)
        self.dropped += not passes
        return passes
