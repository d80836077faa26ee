"""How other processes of this user reach a running supervisor: one JSON line in, one out.

The socket is on loopback; its port and a secret stand in the run's folder, which only its owner
reads.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
from collections.abc import Callable
from typing import Any

from staves.engines.local._folder import RunFolder
from staves.errors import StavesError

_LONGEST = 1 << 16


class ControlServer:
    """The supervisor's end; never blocks."""

    def __init__(self, handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.token = secrets.token_hex(16)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self._handle = handle
        self._received: dict[int, bytes] = {}

    def accept(self) -> socket.socket | None:
        """Accept a connection, if there is one."""
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return None
        connection.setblocking(False)
        self._received[connection.fileno()] = b""
        return connection

    def serve(self, connection: socket.socket) -> bool:
        """Read on; answer a whole request. Return whether more is to come."""
        descriptor = connection.fileno()
        try:
            data = connection.recv(1 << 12)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        whole = self._received[descriptor] = self._received[descriptor] + data
        if data and b"\n" not in whole and len(whole) < _LONGEST:
            return True
        del self._received[descriptor]
        with contextlib.suppress(OSError):  # the other end has gone
            connection.sendall(json.dumps(self._answer(whole)).encode() + b"\n")
        return False

    def close(self) -> None:
        """Take no more requests."""
        self.listener.close()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            token = str(request.pop("token"))
        except (ValueError, AttributeError, KeyError, TypeError):
            return {"error": "not a request"}
        if not hmac.compare_digest(token, self.token):
            return {"error": "wrong token"}
        try:
            return self._handle(request)
        except StavesError as error:
            return {"error": error.message, "hint": error.hint}


def wake(folder: RunFolder) -> None:
    """Have the supervisor of a run look around now; one that has ended does not."""
    with contextlib.suppress(OSError, StavesError):  # or is not up yet: it looks as it starts
        about = folder.read("run.json")
        with socket.create_connection(("127.0.0.1", about["port"]), timeout=1) as connection:
            connection.sendall(json.dumps({"token": about["token"]}).encode() + b"\n")


def ask(folder: RunFolder, **request: Any) -> dict[str, Any]:
    """Send a request to the supervisor of a run, and return its answer.

    Raises:
        StavesError: it does not run any more, or refuses.
    """
    about = folder.read("run.json")
    try:
        with socket.create_connection(("127.0.0.1", about["port"]), timeout=10) as connection:
            line = json.dumps({"token": about["token"], **request}).encode() + b"\n"
            connection.sendall(line)
            with connection.makefile("rb") as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
    except (OSError, ValueError):
        raise StavesError(
            f"{folder.name} does not answer", hint="it has ended, or its machine is very busy"
        ) from None
    if "error" in answer:
        raise StavesError(f"{folder.name}: {answer['error']}", hint=answer.get("hint"))
    return answer
