"""The line between supervisor and agent: frames over TCP, each a JSON header and raw bytes.

A frame is two lengths (4 bytes each, big-endian), then the header, then the bytes. What a rank
prints or says is never looked into on its way.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from staves.engines.local._loop import Loop

_LENGTHS = struct.Struct("!II")
LONGEST = 1 << 24
"""Bytes of a header or of what it carries, at most."""
_HIGH_WATER = 1 << 22  # bytes that wait to be sent, beyond which the sender waits

Take = Callable[[dict[str, Any], bytes], None]


class Link:
    """One end of the line; reading never blocks.

    Args:
        connection: an open TCP connection, which becomes the link's.
        loop: in which frames are taken in.
        take: called with each frame's header and bytes.
        lost: called once, with the reason, when the line has ended.
        longest: bytes of a frame, at most; may be raised later.
        waits: seconds for which `send` waits where the other end does not read; 0: never.
    """

    def __init__(
        self,
        connection: socket.socket,
        loop: Loop,
        take: Take,
        lost: Callable[[str], None],
        *,
        longest: int = LONGEST,
        waits: float = 0.0,
    ) -> None:
        self._connection, self._loop = connection, loop
        self.take, self.on_lost = take, lost
        """May become others', with the line."""
        self.longest, self._waits = longest, waits
        self._received, self._unsent = bytearray(), bytearray()
        self.heard = time.monotonic()
        """When something has come last, in seconds of the monotonic clock."""
        self.closed = False
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.watch(connection.fileno(), self.receive)

    @property
    def own_host(self) -> str:
        """The address of this end."""
        host: str = self._connection.getsockname()[0]
        return host

    def send(self, kind: str, data: bytes = b"", /, **fields: Any) -> None:
        """Send a frame; what the line cannot take now goes as soon as it can."""
        if self.closed:
            return
        header = json.dumps({"kind": kind, **fields}).encode()
        self._unsent += _LENGTHS.pack(len(header), len(data)) + header + data
        self._flush()
        end = time.monotonic() + self._waits
        while len(self._unsent) > _HIGH_WATER and not self.closed:
            left = end - time.monotonic()
            if left <= 0:
                break
            select.select([], [self._connection], [], left)
            self._flush()

    def receive(self) -> None:
        """Take in what has come."""
        ended = ""
        while not self.closed and not ended:
            try:
                data = self._connection.recv(1 << 18)
            except BlockingIOError:
                break
            except OSError as error:
                ended = error.strerror or str(error)
                break
            if not data:
                ended = "the connection was closed"
            else:
                self._received += data
                self.heard = time.monotonic()
        if problem := self._frames():
            ended = problem
        if ended:
            self.lose(ended)

    def lose(self, reason: str) -> None:
        """Take the line as ended."""
        if not self.closed:
            self.close()
            self.on_lost(reason)

    def close(self) -> None:
        """End the line; nobody is told."""
        if not self.closed:
            self.closed = True
            self._loop.forget(self._connection.fileno())
            self._connection.close()

    def _frames(self) -> str:
        """Take in whole frames; return what is wrong with one, or nothing."""
        while not self.closed and len(self._received) >= _LENGTHS.size:
            lengths = _LENGTHS.unpack_from(self._received)
            if max(lengths) > self.longest:
                return "what came is no frame of ours"
            start, middle = _LENGTHS.size, _LENGTHS.size + lengths[0]
            end = middle + lengths[1]
            if len(self._received) < end:
                return ""
            try:
                header = json.loads(self._received[start:middle])
                header["kind"] = str(header["kind"])
            except (ValueError, TypeError, KeyError):
                return "what came is no frame of ours"
            data = bytes(self._received[middle:end])
            del self._received[:end]
            self.take(header, data)
        return ""

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            self._loop.watch_writing(self._connection.fileno(), self._flush)
            return
        except OSError as error:
            self._unsent.clear()
            self._loop.post(partial(self.lose, error.strerror or str(error)))
        if not self.closed:
            self._loop.watch_writing(self._connection.fileno(), None)
