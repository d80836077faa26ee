"""Processes that a service left behind: its supervisors, and what those started.

They are known by a mark in their environment, which holds however their controller died.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "STAVES_SERVICE"
"""In the environment of all that the controller starts: the home of its service."""


def end_leftovers(home: Path, *, grace: float) -> int:
    """End all processes of the service of `home` but the controller; return how many there were.

    Supervisors are told to end, and end their workers; what is left after `grace` seconds is
    ended by force.
    """
    found = dict(_marked(home))
    if not found:
        return 0
    for pid, parent in found.items():
        if parent not in found:
            _signal(pid, home, signal.SIGTERM)
    _wait(home, grace)
    while left := dict(_marked(home)):  # what dies may start others first
        for pid in left:
            _signal(pid, home, signal.SIGKILL)
        _wait(home, 1.0)
    return len(found)


def _marked(home: Path) -> Iterator[tuple[int, int]]:
    """Yield pid and parent of the processes that carry the mark."""
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        if pid != os.getpid() and _is_marked(pid, home):
            with contextlib.suppress(OSError, IndexError, ValueError):
                # The command's name may hold spaces and parentheses.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                yield pid, int(fields[1])


def _is_marked(pid: int, home: Path) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone, or another user's
        return False
    return f"{MARK}={home}".encode() in environ.split(b"\0")


def _signal(pid: int, home: Path, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if _is_marked(pid, home):  # and no other that has got the number meanwhile
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _wait(home: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pids = [pid for pid, _ in _marked(home)]
        if not pids:
            return
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pids[0])
            try:
                select.select([descriptor], [], [], max(deadline - time.monotonic(), 0))
            finally:
                os.close(descriptor)
