"""The line to the supervisor: JSON messages, one a line, over an inherited socket.

A worker says what it does (progress, figures, metrics); in a job without a supervisor nothing is
said and nothing breaks. The socket's end is the supervisor's death.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, ClassVar

_SOON = 0.1  # seconds


class Channel:
    """One end of the line, safe to use from several threads."""

    _inherited: ClassVar[dict[str, Channel]] = {}
    """The process's line by its descriptor: it outlives each of the runs that use it."""

    def __init__(self, connection: socket.socket | None) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._put_by: deque[dict[str, Any]] = deque()

    @classmethod
    def inherited(cls, variable: str = "STAVES_CHANNEL") -> Channel:
        """Open the channel that the supervisor left in the environment; a mute one without it."""
        descriptor = os.environ.get(variable)
        if not descriptor:
            return cls(None)
        if descriptor not in cls._inherited:
            try:
                # Loader workers and user processes need none.
                os.set_inheritable(int(descriptor), False)
                cls._inherited[descriptor] = cls(socket.socket(fileno=int(descriptor)))
            except (OSError, ValueError):  # a process that only copied our environment
                return cls(None)
        return cls._inherited[descriptor]

    @property
    def connected(self) -> bool:
        """Whether somebody listens."""
        return self._connection is not None

    def receive(self) -> Iterator[dict[str, Any]]:
        """Yield the supervisor's messages until the line ends, which is the supervisor's death.

        Also sends on what `send_soon` has put by.
        """
        connection, partial = self._connection, b""
        if connection is None:
            return
        while True:
            try:
                if not select.select([connection], [], [], _SOON)[0]:
                    self._send()
                    continue
                data = connection.recv(1 << 16)
            except (OSError, ValueError):
                return
            if not data:
                return
            *lines, partial = (partial + data).split(b"\n")
            for line in lines:
                yield json.loads(line)

    def say(self, text: str, **fields: Any) -> None:
        """Tell people something: through the supervisor, or on standard error without one."""
        if self.connected:
            self.send("say", text=text, **fields)
        else:
            print(f"staves: {text}", file=sys.stderr, flush=True)

    def send(self, kind: str, **fields: Any) -> None:
        """Send one message; a supervisor that has gone is no error here (it ends us by itself)."""
        if self._connection is not None:
            self._send({"kind": kind, **fields})

    def send_soon(self, kind: str, **fields: Any) -> None:
        """Send one message with the next one, or within a fraction of a second.

        Waking the supervisor costs more than a message: what comes with every step goes like this,
        and is put into words only then. So `fields` must not change any more.
        """
        if self._connection is not None:
            fields["kind"] = kind
            self._put_by.append(fields)

    def _send(self, *messages: dict[str, Any]) -> None:
        with self._lock:
            put_by = [self._put_by.popleft() for _ in range(len(self._put_by))]
            data = b"".join(json.dumps(each).encode() + b"\n" for each in (*put_by, *messages))
            try:
                if data and self._connection is not None:
                    self._connection.sendall(data)
            except OSError:
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
