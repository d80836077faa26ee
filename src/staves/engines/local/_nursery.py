"""The supervisor's side of the nursery, `staves.training.nursery`: asks it for workers.

One request is under way at a time; the loop takes in the answers, so that nothing ever waits for
the nursery. When it ends, or does not answer, it is given up for good.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from staves.engines.local._loop import Loop
from staves.engines.local._process import ChildProcess

_PATIENCE = 120.0  # seconds, with torch still to be loaded on a busy machine
_LONGEST_ANSWER = 1 << 12  # bytes
# A folder that happens to be where this runs must lend no modules to the workers.
_PROGRAM = (
    "import sys; sys.flags.safe_path or sys.path.pop(0); "
    "from staves.training.nursery import main; main()"
)


@dataclass(frozen=True, slots=True)
class Wish:
    """A worker that is wanted of the nursery.

    Args:
        member: its number in the job.
        arguments: the script and its arguments.
        environ: its environment, but for the name of its line.
        workdir: where it runs.
        descriptors: its ends of its line, standard output and standard error, only lent.
        born: called with its process id.
        refused: called where the nursery cannot start it, with the reason.
    """

    member: int
    arguments: list[str]
    environ: Mapping[str, str]
    workdir: Path
    descriptors: tuple[int, int, int]
    born: Callable[[int], None]
    refused: Callable[[str], None]


class Nursery:
    """Starts the process and carries wishes to it.

    Args:
        environ: that all workers share: much of it is read while modules load.
        workdir: of the workers: relative folders in PYTHONPATH are taken from there.
        loop: in which answers are taken in.
        on_given_up: called with the reason, before all that still waits is refused.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        workdir: Path,
        loop: Loop,
        on_given_up: Callable[[str], None],
    ) -> None:
        self._loop, self._on_given_up = loop, on_given_up
        self._queue: deque[Wish] = deque()
        self._asked: Wish | None = None
        self._ready = False
        self._since = time.monotonic()
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.setblocking(False)
        with theirs:
            self._process = ChildProcess(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno())],
                environ=environ,
                workdir=workdir,
                descriptors=[theirs.fileno()],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self.pid = self._process.pid
        self.given_up = False
        loop.watch(self._line.fileno(), self._take)
        loop.watch(self._process.descriptor, self._ended)

    def wish(self, wish: Wish) -> None:
        """Ask for a worker; one of its calls is made for sure, unless all is closed before."""
        self._queue.append(wish)
        self._ask()

    def tick(self, now: float) -> None:
        """Give the nursery up where it has not answered for long."""
        waits = not self._ready or self._asked is not None
        if waits and not self.given_up and now - self._since > _PATIENCE:
            self._give_up("it does not answer")

    def close(self) -> None:
        """End the nursery; what it has forked lives on."""
        if not self.given_up:
            self.given_up = True
            self._loop.forget(self._line.fileno())
            self._loop.forget(self._process.descriptor)
            self._process.close()
            self._line.close()

    def _ask(self) -> None:
        if not self._ready or self._asked is not None or not self._queue:
            return
        self._asked, self._since = self._queue.popleft(), time.monotonic()
        fields = {
            "member": self._asked.member,
            "arguments": self._asked.arguments,
            "environ": dict(self._asked.environ),
            "workdir": str(self._asked.workdir),
        }
        try:
            socket.send_fds(self._line, [json.dumps(fields).encode()], self._asked.descriptors)
        except BrokenPipeError:  # it has gone, which its process descriptor says too
            pass
        except OSError as error:  # such as an environment beyond a message's size
            self._refused(error.strerror or str(error))

    def _take(self) -> None:
        """Take in answers."""
        while not self.given_up:
            try:
                data = self._line.recv(_LONGEST_ANSWER)
            except (BlockingIOError, ConnectionResetError):
                return
            if not data:  # closed: its process descriptor says the rest
                self._loop.forget(self._line.fileno())
                return
            answer = json.loads(data)
            if answer.get("ready"):
                self._ready = True
                self._ask()
            elif self._asked is None or answer["member"] != self._asked.member:
                continue
            elif "pid" in answer:
                asked, self._asked = self._asked, None
                asked.born(answer["pid"])
                self._ask()
            else:
                self._refused(answer["refused"])

    def _refused(self, reason: str) -> None:
        asked, self._asked = self._asked, None
        assert asked is not None
        asked.refused(reason)
        self._ask()

    def _ended(self) -> None:
        status = self._process.poll()
        if status is not None:
            self._give_up(f"it was ended by signal {-status}" if status < 0 else "it has failed")

    def _give_up(self, reason: str) -> None:
        # From here on a worker on its way can answer nobody, and ends: none is started twice.
        self._line.shutdown(socket.SHUT_RD)
        self._take()
        self.close()
        self._on_given_up(reason)
        wishes = [*([self._asked] if self._asked else []), *self._queue]
        self._asked = None
        self._queue.clear()
        for wish in wishes:
            wish.refused(reason)
