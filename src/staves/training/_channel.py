"""The line to the supervisor: JSON messages, one a line, over an inherited socket.

A worker says what it does (progress, figures, metrics); in a job without a supervisor nothing is
said and nothing breaks. The socket's end is the supervisor's death.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import Any, ClassVar


class Channel:
    """One end of the line, safe to use from several threads."""

    _inherited: ClassVar[dict[str, Channel]] = {}
    """The process's line by its descriptor: it outlives each of the runs that use it."""

    def __init__(self, connection: socket.socket | None) -> None:
        self._connection = connection
        self._lock = threading.Lock()

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

    def send(self, kind: str, **fields: Any) -> None:
        """Send one message; a supervisor that has gone is no error here (it ends us by itself)."""
        if self._connection is None:
            return
        line = json.dumps({"kind": kind, **fields}).encode() + b"\n"
        with self._lock:
            try:
                self._connection.sendall(line)
            except OSError:
                self._connection.close()
                self._connection = None
