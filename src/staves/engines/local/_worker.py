"""One worker: a process on one device, the line on which it reports, and what it prints."""

from __future__ import annotations

import json
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from staves.engines.local._process import Process
from staves.hardware import Device
from staves.membership import Joiner


class Worker(ABC):
    """The worker of one member, wherever it runs.

    Args:
        member: its number in the job.
        device: what it computes on, or the first of what it computes on.
        rank: in the generation it is expected to join first.
    """

    pid: int | None = None
    """Its process id, where it runs on this machine."""

    def __init__(self, member: int, device: Device, *, rank: int) -> None:
        self.member, self.device, self.first_rank = member, device, rank
        self.report: dict[str, Any] | None = None
        self.refusal: dict[str, Any] | None = None
        self.said_hello = self.left = self.told_to_end = False
        self.fixed = False  # it holds a part of a sharded model, and trains with these ranks only
        self.gone_with: str | None = None
        """What it was lost with, in words, where that was more than itself."""
        self._partial = b""

    @property
    def unfinished(self) -> bool:
        """Whether it has neither trained to the end nor been told to leave."""
        return self.report is None and not self.left and not self.told_to_end

    def greet(self, hello: dict[str, Any]) -> Joiner:
        """Take in its first message; return what it says of itself."""
        self.said_hello, self.fixed = True, hello["fixed"]
        return Joiner(hello["fingerprint"], hello["about"])

    def messages(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the messages that are whole with these further bytes of its line."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:  # something else of the script's wrote here
                continue
            if isinstance(message, dict) and "kind" in message:
                yield message

    def tell(self, kind: str, /, **fields: Any) -> None:
        """Send the worker a message."""
        self.send(json.dumps({"kind": kind, **fields}).encode() + b"\n")

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Put bytes on its line; what that cannot take now goes later."""

    @abstractmethod
    def signal(self, number: int) -> None:
        """Send a signal to it and to all that it started."""


class LocalWorker(Worker):
    """A worker that is a process of this machine.

    Args:
        member, device, rank: as of any worker.
        process: with pipes for what it prints.
        channel: our end of its line.
    """

    def __init__(
        self,
        member: int,
        device: Device,
        process: Process,
        channel: socket.socket,
        *,
        rank: int,
    ) -> None:
        super().__init__(member, device, rank=rank)
        self.line_ended = False
        self.process, self.channel, self.pid = process, channel, process.pid
        self.channel.setblocking(False)
        self._unsent = b""
        self.pipes: list[tuple[bool, int]] = []
        """Whether it is standard error, and the descriptor."""
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self.pipes.append((pipe is self.process.stderr, pipe.fileno()))

    def receive(self) -> bytes:
        """Return what has come on its line; the line's end adds nothing."""
        received = []
        try:
            while data := self.channel.recv(1 << 16):
                received.append(data)
            self.line_ended = True  # closed over there, by a worker that may live on
        except BlockingIOError:
            pass
        except OSError:  # reset: the worker has gone, which its process descriptor says too
            pass
        return b"".join(received)

    @staticmethod
    def read(pipe: int) -> bytes | None:
        """Return what it has printed there: nothing at the end, None where there is none yet."""
        try:
            return os.read(pipe, 1 << 16)
        except BlockingIOError:
            return None

    def send(self, data: bytes) -> None:
        """Put bytes on its line; what that cannot take now goes with the next ones."""
        self._unsent += data
        self.flush()

    def flush(self) -> None:
        """Send on what could not be sent before."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self.channel.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # it has gone, which its process descriptor says too
            self._unsent = b""

    def signal(self, number: int) -> None:
        """Send a signal to it and to all that it started."""
        self.process.signal(number)

    def close(self) -> None:
        """End the process and all it started; release everything."""
        self.process.close()
        self.channel.close()
