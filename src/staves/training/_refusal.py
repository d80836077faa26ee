"""How a worker's script ends: input errors in one line, and the exit status known at exit."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from staves.errors import InputError
from staves.training._channel import Channel

_status = 0
_watching = False


def exit_status() -> int:
    """Return the status that the interpreter is about to exit with, as far as it can be known."""
    return _status


def report_input_errors(channel: Channel) -> None:
    """Send input errors that end this script to the supervisor, which prints them as one line.

    Without a supervisor they stay ordinary exceptions; all other exceptions always do. May be
    called again: whoever has put a hook before ours meanwhile comes after it.
    """
    _watch_exit()
    ordinary = sys.excepthook
    if getattr(ordinary, "of_staves", False):
        return

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        global _status
        _status = 1
        if isinstance(error, InputError) and channel.connected:
            channel.send("refused", message=error.message, hint=error.hint)
        else:
            ordinary(kind, error, traceback)

    hook.of_staves = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def _watch_exit() -> None:
    """Note the status that `sys.exit` is called with; nothing else tells it at exit."""
    global _watching
    if _watching:
        return
    _watching = True
    ordinary = sys.exit

    def leave(status: Any = None, /) -> None:
        global _status
        _status = status if isinstance(status, int) else int(status is not None)
        ordinary(status)

    sys.exit = leave  # type: ignore[assignment]
