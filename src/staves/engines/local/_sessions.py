"""Processes that outlive their supervisor: found by what was noted of them, and ended.

The kernel ends a worker with its supervisor, but not what the worker has started: `sh` dies and
leaves its `sleep` behind. That bears the worker's environment, by which it is known, wherever it
went. A worker that lives on, and its session with it, is known by its number and start time
together: a number alone proves nothing, it may be another process's by now.
"""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_VARIABLE = "STAVES_RUN"
_ENDS_WITHIN = 10_000  # milliseconds; a killed process that is not in the kernel ends at once


@dataclass(frozen=True, slots=True)
class Session:
    """The session that a worker leads.

    Args:
        pid: of the worker, and the session's id.
        started: when it was started, in clock ticks since boot; None: it had ended by then.
        boot: which boot of the machine that was.
    """

    pid: int
    started: int | None
    boot: str

    @classmethod
    def of(cls, pid: int) -> Session:
        """Return the session of a worker that was started just now."""
        found = _Process.read(pid)
        return cls(pid, None if found is None else found.started, _boot())

    def to_line(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Session:
        """Return what `to_line` wrote."""
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    session: int
    started: int
    zombie: bool

    @classmethod
    def read(cls, pid: int) -> _Process | None:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except (OSError, ValueError):  # it has gone
            return None
        fields = text.rpartition(")")[2].split()
        return cls(pid, int(fields[3]), int(fields[19]), fields[0] in "ZX")

    def marked(self, mark: str) -> bool:
        """Whether its environment says that it belongs there."""
        try:
            environ = Path(f"/proc/{self.pid}/environ").read_bytes()
        except OSError:  # it has gone, or is another user's
            return False
        return f"{_VARIABLE}={mark}".encode() in environ.split(b"\0")


def end_sessions(sessions: Sequence[Session], *, mark: str) -> None:
    """End all processes of these sessions, and those whose environment bears the mark.

    Returns when they have ended. This process itself is left alone.
    """
    boot = _boot()
    known = {s.pid: s for s in sessions if s.boot == boot and s.started is not None}
    while found := [process for process in _processes() if _belongs(process, known, mark)]:
        for process in found:
            _end(process)


def _belongs(process: _Process, known: dict[int, Session], mark: str) -> bool:
    if process.zombie or process.pid == os.getpid():
        return False
    session = known.get(process.session)
    leader = None if session is None else _Process.read(session.pid)
    if session is not None and leader is not None and leader.started == session.started:
        return True
    return process.marked(mark)


def _end(process: _Process) -> None:
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # The descriptor holds the process that has the number now: is it still the same?
        now = _Process.read(process.pid)
        if now is not None and now.started == process.started:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll(_ENDS_WITHIN)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)


def _processes() -> Iterator[_Process]:
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            process = _Process.read(int(path.name))
            if process is not None:
                yield process


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
