"""How workers are started: by exec, or where that comes to the same, forked by the nursery."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from staves.engines.local._loop import Loop
from staves.engines.local._nursery import Nursery, Wish
from staves.engines.local._process import AdoptedProcess, ChildProcess
from staves.engines.local._script import script_of
from staves.engines.local._worker import LocalWorker
from staves.hardware import Device

_SWITCH = "STAVES_FORK"


class Starter:
    """Starts the workers of one command.

    Args:
        command: the command line of a worker.
        environ: what all workers have in theirs.
        workdir: where they run; here where None.
        loop: in which the nursery answers.
        on_started: called with each worker, at once or from the loop.
        say: called with a line for people.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        workdir: Path | None,
        loop: Loop,
        on_started: Callable[[LocalWorker], None],
        say: Callable[[str], None],
    ) -> None:
        self._command, self._environ = list(command), environ
        self._workdir, self._loop = Path.cwd() if workdir is None else workdir, loop
        self._on_started, self._say = on_started, say
        self._nursery: Nursery | None = None
        self._script: list[str] = []
        self._of_shell: dict[str, str] = {}
        self._warned = False
        self.awaited: dict[int, ExitStack] = {}
        """Members that the nursery was asked for, and what is released where nothing comes."""

    def prepare(self, devices: Sequence[Device]) -> None:
        """Start the nursery where it will serve workers of all these devices."""
        if not devices or not all(device.type.emulated for device in devices):
            return
        if self._environ.get(_SWITCH) == "0":
            return
        script = script_of(self._command, self._environ, self._workdir)
        if script is not None:
            self._script = script
            if self._command[0] != sys.executable:  # a shell would say where it runs
                self._of_shell = {"PWD": str(self._workdir)}
            try:
                self._nursery = Nursery(self._environ, self._workdir, self._loop, self._warn)
            except OSError as error:
                self._warn(str(error))

    def start(self, member: int, device: Device, *, rank: int, environ: Mapping[str, str]) -> None:
        """Start the worker of that member with this environment."""
        nursery = self._nursery
        if nursery is None or nursery.given_up or not device.type.emulated:
            self._execute(member, device, rank, environ)
            return
        with ExitStack() as stack:
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            stack.enter_context(theirs)
            output, errors = (_pipe(stack) for _ in range(2))

            def born(pid: int) -> None:
                del self.awaited[member]
                process = AdoptedProcess(
                    pid, os.fdopen(output[0], "rb"), os.fdopen(errors[0], "rb")
                )
                for descriptor in (output[1], errors[1]):
                    os.close(descriptor)
                theirs.close()
                self._on_started(LocalWorker(member, device, process, ours, rank=rank))

            def refused(reason: str) -> None:
                self.awaited.pop(member).close()
                self._warn(reason)
                self._execute(member, device, rank, environ)

            lent = theirs.fileno(), output[1], errors[1]
            self.awaited[member] = stack.pop_all()
        whole = {**environ, **self._of_shell}
        nursery.wish(Wish(member, self._script, whole, self._workdir, lent, born, refused))

    def tick(self, now: float) -> None:
        """Do what is due; `now` in seconds of the monotonic clock."""
        if self._nursery is not None:
            self._nursery.tick(now)

    def close(self) -> None:
        """Start nothing more, and release everything that has not become a worker's."""
        if self._nursery is not None:
            self._nursery.close()
        while self.awaited:
            self.awaited.popitem()[1].close()

    def _execute(self, member: int, device: Device, rank: int, environ: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            process = ChildProcess(
                self._command,
                environ={**environ, "STAVES_CHANNEL": str(theirs.fileno())},
                workdir=self._workdir,
                descriptors=[theirs.fileno()],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        self._on_started(LocalWorker(member, device, process, ours, rank=rank))

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            self._say(f"workers start slower, each with a Python of its own: the nursery: {reason}")


def _pipe(stack: ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for descriptor in ends:
        stack.callback(partial(os.close, descriptor))
    return ends
