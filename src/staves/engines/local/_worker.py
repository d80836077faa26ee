"""One worker: a process on one device, the line on which it reports, and what it prints."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from staves.engines.local._process import ChildProcess
from staves.hardware import Device


class Worker:
    """The worker of one rank.

    Args:
        rank: its rank in the first generation it belongs to.
        world_size: of that generation.
        device: what it computes on.
        command: the user's command, without the interpreter.
        environ: the environment it extends.
        store: address of the rendezvous store; None for a world of one.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        device: Device,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        home: Path,
        store: tuple[str, int] | None,
    ) -> None:
        self.rank, self.device = rank, device
        self.report: dict[str, Any] | None = None
        self.refusal: dict[str, Any] | None = None
        ours, theirs = socket.socketpair()
        self.channel = ours
        self.channel.setblocking(False)
        self._partial = b""
        self.line_ended = False
        emulation = {} if device.type.profile is None else {
            "profile": device.type.profile.to_document()
        }  # fmt: skip
        variables = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_WORLD_SIZE": str(world_size),
            "STAVES_HOME": str(home),
            "STAVES_GENERATION": "1",
            "STAVES_CHANNEL": str(theirs.fileno()),
            "STAVES_DEVICE": json.dumps(
                {"name": device.name, "type": device.type.name, **emulation}
            ),
            "PYTHONUNBUFFERED": "1",
        }
        if store is not None:
            variables["STAVES_STORE"] = f"{store[0]}:{store[1]}"
        self.process = ChildProcess(
            [sys.executable, *command],
            environ={**environ, **variables},
            descriptors=[theirs.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        theirs.close()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)

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
            yield json.loads(line)

    def close(self) -> None:
        """End the process and all it started; release everything."""
        self.process.close()
        self.channel.close()
