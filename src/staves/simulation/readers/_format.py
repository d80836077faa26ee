"""What a reader is: a name, how its files are recognised, and a function that reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from staves.errors import InputError
from staves.simulation._csv import Row, read_lines, rows_in

Holds = Literal["jobs", "nodes", "availability", "throughputs"]


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was opened, and is not yet understood.

    Args:
        path: where it is.
        lines: of its text.
        header: the comma-separated cells of the first line that is not blank.
        document: what it holds where it is JSON, else None.
    """

    path: Path
    lines: tuple[str, ...]
    header: tuple[str, ...]
    document: Any = None

    def rows(self, columns: tuple[str, ...]) -> Iterator[Row]:
        """Yield its rows by the names of columns; errors as `read_rows`."""
        return rows_in(self.path, self.lines, columns)

    @property
    def name(self) -> str:
        """The file's name and its folder's, for reports."""
        stem = self.path.name.removesuffix(".gz").rsplit(".", 1)[0]
        return f"{self.path.parent.name}/{stem}" if self.path.parent.name else stem


@dataclass(frozen=True, slots=True)
class Format:
    """One layout of files.

    Args:
        name: as people know it.
        holds: what such a file is about.
        read: from a file to its contents; raises InputError with file, line and column.
        columns: that its header must have; empty where it has none.
        optional: that its header may have.
        shape: whether a file looks like it, where the header does not tell.
    """

    name: str
    holds: Holds
    read: Callable[[Source], Any]
    columns: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    shape: Callable[[Source], bool] | None = None

    def likeness(self, header: tuple[str, ...]) -> int:
        """Return how well a header fits: columns that belong, less those absent or unknown."""
        there = set(header)
        known = there & {*self.columns, *self.optional}
        missing = set(self.columns) - there
        return len(known) - len(missing) - len(there - known)

    def claims(self, header: tuple[str, ...]) -> bool:
        """Say whether a file with that header is meant to be one, damaged as it may be."""
        there = len(set(self.columns) & set(header))
        return bool(self.columns) and 2 * there > len(self.columns)


def open_source(path: Path) -> Source:
    """Open a file; JSON is parsed.

    Raises:
        InputError: it cannot be read, is empty, or begins as JSON and is none.
    """
    lines = tuple(read_lines(path))
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise InputError(f"{path}:1: is empty", hint="name a file that holds something")
    if first.lstrip()[0] in "[{":
        return Source(path, lines, (), _document(path, "\n".join(lines)))
    return Source(path, lines, tuple(cell.strip() for cell in first.split(",")))


def _document(path: Path, text: str) -> Any:
    def refuse(token: str) -> float:
        raise InputError(f"{path}: {token} is no number of JSON", hint="correct the file")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}:{error.lineno}: column {error.colno}: not JSON: {error.msg}",
            hint="the file may be cut short",
        ) from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: not JSON that can be read: {error}", hint="correct the file"
        ) from None


def entry(path: Path, where: str, value: Mapping[str, Any], key: str) -> float:
    """Return the number at `key` of a JSON mapping.

    Raises:
        InputError: it is absent, no number, or below 0.
    """
    number = value.get(key)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise InputError(f"{path}: {where}: {key}: must be a number", hint="correct the entry")
    if not 0 <= number < 1e15:
        raise InputError(
            f"{path}: {where}: {key}: {number} is out of range", hint="correct the entry"
        )
    return float(number)
