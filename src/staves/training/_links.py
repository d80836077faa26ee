"""Emulated links: a reduced bucket is through when its bytes are, at the declared speed.

The real all-reduce has then gone over this machine's memory. What is held back is its end: in a
ring of n devices each sends 2 (n - 1) / n of the bytes, one bucket after the other, and the slowest
link between the ring's nodes decides. What the real one took stays as latency.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from staves.steptime import ring_share
from staves.training._environment import WorkerDevice


class Link:
    """The slowest link of a ring; times are `time.perf_counter` seconds.

    Args:
        bits_per_second: its speed.
        devices: of the ring.
    """

    def __init__(self, bits_per_second: float, devices: int) -> None:
        self._seconds_a_byte = float(ring_share(devices)) * 8 / bits_per_second
        self._free = 0.0
        self._lock = threading.Lock()
        self._carried: deque[tuple[float, Callable[[], None]]] = deque()
        self._busy = False

    @classmethod
    def of(cls, devices: Sequence[WorkerDevice]) -> Link | None:
        """Return the link of a ring; None in one node, or where no node declares one."""
        declared = [device.link for device in devices if device.link is not None]
        if len({device.node for device in devices}) < 2 or not declared:
            return None
        return cls(min(declared), len(devices))

    def seconds(self, size: int) -> float:
        """Return how long a bucket of `size` bytes is on the wire."""
        return size * self._seconds_a_byte

    def carry(self, size: int, arrived: Callable[[], None]) -> None:
        """Call `arrived`, in another thread, when a bucket that has been reduced now is through."""
        with self._lock:
            self._free = max(self._free, time.perf_counter()) + self.seconds(size)
            self._carried.append((self._free, arrived))
            if self._busy:
                return
            self._busy = True
        threading.Thread(target=self._deliver, name="staves-link", daemon=True).start()

    def _deliver(self) -> None:
        """Deliver until nothing is on the wire: no thread waits from one step to the next."""
        while True:
            with self._lock:
                if not self._carried:
                    self._busy = False
                    return
                due, arrived = self._carried.popleft()
            time.sleep(max(0.0, due - time.perf_counter()))
            arrived()
