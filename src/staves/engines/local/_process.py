"""Child processes that cannot outlive us: parent-death signal, own session, whole tree ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

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


class ChildProcess:
    """A child in a session of its own, watched by a descriptor of its process.

    Args:
        arguments: the command line; started by exec, without a shell.
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
        self.pid = self._process.pid
        self.stdout, self.stderr = self._process.stdout, self._process.stderr
        self.descriptor = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """Return its exit status (negative: the signal that ended it), or None while it runs."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Send a signal to it and to all that it started."""
        # The group exists as long as any of its members does, also after the child itself.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def close(self) -> None:
        """End what is left of its tree, and release the descriptors."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(OSError):
            os.close(self.descriptor)
