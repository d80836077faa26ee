"""The supervisor's loop: one thread waits for readable descriptors and calls who watches them."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections.abc import Callable, Iterator
from functools import partial


class Loop:
    """Calls by descriptor."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.watch(self._wake, partial(os.read, self._wake, 64))

    def watch(self, descriptor: int, call: Callable[[], object]) -> None:
        """Call this whenever the descriptor is readable."""
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def forget(self, descriptor: int) -> None:
        """Watch it no more; one that is not watched is no error."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def serve(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for events, and take them in."""
        for key, _ in self._selector.select(timeout):
            # An event before it may have ended what this one is about.
            if self._selector.get_map().get(key.fd) is key:
                key.data()

    @contextlib.contextmanager
    def signals(self, call: Callable[[int], None]) -> Iterator[None]:
        """SIGINT and SIGTERM call this and wake the loop, instead of ending the process."""

        def handle(number: int, frame: object) -> None:
            call(number)
            with contextlib.suppress(OSError):
                os.write(self._waker, b"x")

        previous = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Release the descriptors that are the loop's own."""
        self._selector.close()
        os.close(self._wake)
        os.close(self._waker)
