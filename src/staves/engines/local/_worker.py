"""One worker: a process on one device, the line on which it reports, and what it prints."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any

from staves.engines.local._process import Process
from staves.hardware import Device
from staves.membership import Joiner


class Worker:
    """The worker of one member.

    Args:
        member: its number in the job.
        device: what it computes on, or the first of what it computes on.
        process: with pipes for what it prints.
        channel: our end of its line.
        rank: in the generation it is expected to join first.
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
        self.member, self.device, self.first_rank = member, device, rank
        self.report: dict[str, Any] | None = None
        self.refusal: dict[str, Any] | None = None
        self.said_hello = self.left = self.told_to_end = False
        self.fixed = False  # it holds a part of a sharded model, and trains with these ranks only
        self.line_ended = False
        self.process, self.channel = process, channel
        self.channel.setblocking(False)
        self._partial = b""
        self._unsent = b""
        self.pipes: list[tuple[bool, int]] = []
        """Whether it is standard error, and the descriptor."""
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self.pipes.append((pipe is self.process.stderr, pipe.fileno()))

    @property
    def unfinished(self) -> bool:
        """Whether it has neither trained to the end nor been told to leave."""
        return self.report is None and not self.left and not self.told_to_end

    def greet(self, hello: dict[str, Any]) -> Joiner:
        """Take in its first message; return what it says of itself."""
        self.said_hello, self.fixed = True, hello["fixed"]
        return Joiner(hello["fingerprint"], hello["about"])

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the messages that have come; the line's end yields nothing more."""
        try:
            while data := self.channel.recv(1 << 16):
                self._partial += data
            self.line_ended = True  # closed over there, by a worker that may live on
        except BlockingIOError:
            pass
        except OSError:  # reset: the worker has gone, which its process descriptor says too
            pass
        *lines, self._partial = self._partial.split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:  # something else of the script's wrote here
                continue
            if isinstance(message, dict) and "kind" in message:
                yield message

    def tell(self, kind: str, /, **fields: Any) -> None:
        """Send the worker a message; what its line cannot take now goes with the next one."""
        self._unsent += json.dumps({"kind": kind, **fields}).encode() + b"\n"
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

    def close(self) -> None:
        """End the process and all it started; release everything."""
        self.process.close()
        self.channel.close()
