"""Child processes that cannot outlive us: parent-death signal, own session, whole tree ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> Callable[[], None]:
    """Return what a child runs before exec: end with `parent`, even if it has gone already.

    The signal fires on the death of the spawning *thread*, so children are started from a thread
    that lives as long as the process: the main one.
    """

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def adopt_orphans() -> set[int]:
    """Become the parent of what workers leave behind; return the children there are now."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    return _children()


def end_orphans(before: set[int]) -> None:
    """End what workers have started in sessions of their own and left behind."""
    while orphans := _children() - before:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> set[int]:
    children: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children |= {int(pid) for pid in file.read_text().split()}
    return children


class Process(ABC):
    """A child in a session of its own, watched by a descriptor of its process.

    Args:
        pid: of the child, which nobody else waits for.
        stdout, stderr: our ends of its pipes, where it has any.
    """

    def __init__(self, pid: int, stdout: IO[bytes] | None, stderr: IO[bytes] | None) -> None:
        self.pid, self.stdout, self.stderr = pid, stdout, stderr
        self.descriptor = os.pidfd_open(pid)

    @abstractmethod
    def poll(self) -> int | None:
        """Return its exit status (negative: the signal that ended it), or None while it runs."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for its end."""

    def signal(self, number: int) -> None:
        """Send a signal to it and to all that it started."""
        # The group exists as long as any of its members does, also after the child itself.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def close(self) -> None:
        """End what is left of its tree, and release the descriptors."""
        self.signal(signal.SIGKILL)
        self.wait()
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(OSError):
            os.close(self.descriptor)


class ChildProcess(Process):
    """A child that is started by exec, without a shell.

    Args:
        arguments: the command line.
        environ: its whole environment.
        workdir: where it runs; here where None.
        descriptors: those it inherits, beside the standard three.
        stdout, stderr: as in `subprocess.Popen`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environ: Mapping[str, str],
        workdir: Path | None = None,
        descriptors: Sequence[int] = (),
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            list(arguments),
            env=dict(environ),
            cwd=workdir,
            pass_fds=list(descriptors),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=die_with_parent(os.getpid()),
        )
        super().__init__(self._process.pid, self._process.stdout, self._process.stderr)

    def poll(self) -> int | None:
        """Return its exit status (negative: the signal that ended it), or None while it runs."""
        return self._process.poll()

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait()


class AdoptedProcess(Process):
    """A child that another process has forked, and that leads a session of its own."""

    _status: int | None = None

    def poll(self) -> int | None:
        """Return its exit status (negative: the signal that ended it), or None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> None:
        """Wait for its end."""
        self._wait(0)

    def _wait(self, options: int) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status
