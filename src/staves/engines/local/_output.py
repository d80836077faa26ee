"""Where workers' output goes: a log each, and rank 0's to the person as well."""

from __future__ import annotations

import time
from collections.abc import Callable

from staves.engines.local._logs import LogFolder

_HELD_FOR = 0.5  # seconds; a rank that fails ends sooner
_TRACEBACK = b"Traceback (most recent call last):"


class OutputRelay:
    """Takes in what workers print.

    Another rank's failure makes rank 0 fail too, a moment later: its traceback is held back until
    it is known who failed first.

    Args:
        logs: where all of it is kept.
        on_output: called with (is_stderr, data) for the output of the member that is shown.
        on_warning: called with a line for people.
    """

    def __init__(
        self,
        logs: LogFolder,
        on_output: Callable[[bool, bytes], None],
        on_warning: Callable[[str], None],
    ) -> None:
        self.logs = logs
        self._on_output, self._on_warning = on_output, on_warning
        self._held: dict[int, tuple[float, bytes]] = {}

    def take(self, member: int, name: str, data: bytes, *, is_stderr: bool, shown: bool) -> None:
        """Put what a member has printed into the log `name`."""
        warning = self.logs.write(name, data)
        if warning is not None:
            self._on_warning(warning)
        if is_stderr and (member in self._held or _TRACEBACK in data):
            since, held = self._held.get(member, (time.monotonic(), b""))
            start = 0 if held else data.index(_TRACEBACK)
            self._held[member] = since, held + data[start:]
            data = data[:start]
        if data and shown:
            self._on_output(is_stderr, data)

    @property
    def holding(self) -> bool:
        """Whether something is held back."""
        return bool(self._held)

    def release(self, member: int, *, shown: bool) -> None:
        """What was held back of this member only looked like a failure."""
        _, held = self._held.pop(member, (0.0, b""))
        if held and shown:
            self._on_output(True, held)

    def outlived(self) -> list[int]:
        """Return the members that still run a while after a traceback: it ended nothing."""
        before = time.monotonic() - _HELD_FOR
        return [member for member, (since, _) in self._held.items() if since < before]
