"""What a reader dropped, or put right, and how often."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counted:
    """Lines of a file with one and the same trouble.

    Args:
        lines: how many.
        what: what they do, such as `ask for no device`.
        dropped: whether they were left out; else they were put right, or taken as they are.
        first: the first such line, from 1; 0 where lines do not count.
    """

    lines: int
    what: str
    dropped: bool
    first: int = 0

    def __str__(self) -> str:
        return f"{self.lines} lines {self.what}" + (", and were dropped" if self.dropped else "")


class Tally:
    """Counts troubles while a file is read."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, bool], tuple[int, int]] = {}

    def drop(self, what: str, line: int = 0) -> None:
        """Count a line that is left out."""
        self._count(what, True, line)

    def note(self, what: str, line: int = 0) -> None:
        """Count a line that is put right, or taken as it is."""
        self._count(what, False, line)

    def _count(self, what: str, dropped: bool, line: int) -> None:
        lines, first = self._found.get((what, dropped), (0, line))
        self._found[what, dropped] = lines + 1, first

    def counted(self) -> tuple[Counted, ...]:
        """Return all that was counted, in the order in which it was first seen."""
        return tuple(
            Counted(lines, what, dropped, first)
            for (what, dropped), (lines, first) in self._found.items()
        )
