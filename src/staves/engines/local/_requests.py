"""What other processes of this user ask of a running supervisor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from staves.engines.local._control import ControlServer
from staves.engines.local._loop import Loop

Answer = dict[str, Any]


class Requests:
    """Serves the control socket in the supervisor's loop.

    Every request is answered with how the run stands; one without a known key only wakes the loop.

    Args:
        loop: the supervisor's.
        handlers: what to do, by the request's key; called with the key's value.
        state: how the run stands.
    """

    def __init__(
        self,
        loop: Loop,
        handlers: Mapping[str, Callable[[Any], None]],
        state: Callable[[], Answer],
    ) -> None:
        self._loop, self._handlers, self._state = loop, handlers, state
        self._control = ControlServer(self._asked)
        loop.watch(self._control.listener.fileno(), self._accept)

    def address(self) -> dict[str, Any]:
        """Return how to reach it: `port` and `token`."""
        return {"port": self._control.port, "token": self._control.token}

    def close(self) -> None:
        """Take no more requests."""
        self._control.close()

    def _accept(self) -> None:
        connection = self._control.accept()
        if connection is not None:

            def serve() -> None:
                if not self._control.serve(connection):
                    self._loop.forget(connection.fileno())
                    connection.close()

            self._loop.watch(connection.fileno(), serve)

    def _asked(self, request: Answer) -> Answer:
        for key, handle in self._handlers.items():
            if key in request:
                handle(request[key])
        return self._state()
