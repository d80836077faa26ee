"""The supervisor's loop: one thread waits for readable descriptors and calls who watches them."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial


class Loop:
    """Calls by descriptor."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._writers: dict[int, Callable[[], object]] = {}
        self._posted: deque[Callable[[], object]] = deque()
        self.watch(self._wake, partial(os.read, self._wake, 64))

    def watch(self, descriptor: int, call: Callable[[], object]) -> None:
        """Call this whenever the descriptor is readable."""
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def watch_writing(self, descriptor: int, call: Callable[[], object] | None) -> None:
        """Call this as well whenever a descriptor that is watched can be written; None: no more."""
        if call is None:
            if self._writers.pop(descriptor, None) is not None:
                data = self._selector.get_key(descriptor).data
                self._selector.modify(descriptor, selectors.EVENT_READ, data)
        elif descriptor not in self._writers:
            data = self._selector.get_key(descriptor).data
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(descriptor, both, data)
            self._writers[descriptor] = call

    def forget(self, descriptor: int) -> None:
        """Watch it no more; one that is not watched is no error."""
        self._writers.pop(descriptor, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def post(self, call: Callable[[], object]) -> None:
        """Call this from the loop, soon. Any thread may ask for it."""
        self._posted.append(call)
        with contextlib.suppress(OSError):  # full, so that it wakes anyway; or closed
            os.write(self._waker, b"x")

    def serve(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for events, and take them in."""
        for _ in range(len(self._posted)):
            self._posted.popleft()()
        for key, events in self._selector.select(timeout):
            # An event before it may have ended what this one is about.
            if events & selectors.EVENT_READ and self._selector.get_map().get(key.fd) is key:
                key.data()
            if events & selectors.EVENT_WRITE and key.fd in self._writers:
                self._writers[key.fd]()

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
