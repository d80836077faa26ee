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

from staves.engines.agents import AGENT_TOKEN

MARK = "STAVES_SERVICE"
"""In the environment of all that the controller starts: the home of its service."""


def end_leftovers(home: Path, *, grace: float) -> int:
    """End all processes of the service of `home` but the controller; return how many there were.

    Supervisors are told to end, and end their workers and agents; what is left after `grace`
    seconds is ended by force. An agent is not told beside its supervisor: that would lose the
    ranks which are just being saved.
    """
    found = dict(_marked(home))
    if not found:
        return 0
    for pid, parent in found.items():
        if parent not in found and not _is_agent(pid):
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
    return f"{MARK}={home}" in _environ(pid)


def _is_agent(pid: int) -> bool:
    return any(word.startswith(f"{AGENT_TOKEN}=") for word in _environ(pid))


def _environ(pid: int) -> list[str]:
    """Return what a process was started with; nothing of one that is gone, or another user's."""
    try:
        return os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")
    except OSError:
        return []


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
