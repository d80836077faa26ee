"""Input errors inside a worker: one line for the person who ran the script, no traceback."""

from __future__ import annotations

import sys
from types import TracebackType

from staves.errors import InputError
from staves.training._channel import Channel


def report_input_errors(channel: Channel) -> None:
    """Send input errors that end this script to the supervisor, which prints them as one line.

    Without a supervisor they stay ordinary exceptions; all other exceptions always do.
    """
    if not channel.connected:
        return
    ordinary = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, InputError):
            channel.send("refused", message=error.message, hint=error.hint)
        else:
            ordinary(kind, error, traceback)

    sys.excepthook = hook
