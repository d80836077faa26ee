"""Comma- and tab-separated files from elsewhere: every complaint names file, line and column."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from staves.errors import InputError, quoted

_LARGEST_COUNT = 10**12
_LARGEST_NUMBER = 1e15  # of seconds, say: sums and products of such numbers stay finite


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a file, by the names of its columns.

    Args:
        path: the file.
        line: from 1.
        cells: text by column.
    """

    path: Path
    line: int
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """Return the cell, which must not be empty."""
        value = self.cells[column].strip()
        if not value:
            raise self.error(column, "is empty")
        return value

    def says(self, column: str) -> bool:
        """Say whether the file has the column, and the line something in it."""
        return bool(self.cells.get(column, "").strip())

    def number(self, column: str, *, least: float = 0.0, most: float = _LARGEST_NUMBER) -> float:
        """Return a number of at least `least`, and at most `most`."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            raise self.error(column, f"{quoted(text)} is no number") from None
        if not math.isfinite(value):
            raise self.error(column, f"{quoted(text)} is not finite")
        if value < least:
            raise self.error(column, f"{text} is below {least:g}")
        if value > most:
            raise self.error(column, f"{quoted(text)} is too large")
        return value

    def count(self, column: str, *, least: int = 0) -> int:
        """Return a whole number of at least `least`."""
        value = self.number(column, least=least)
        if value != int(value) or value > _LARGEST_COUNT:
            raise self.error(
                column, f"{quoted(self.text(column))} is no whole number, or too large"
            )
        return int(value)

    def error(
        self, column: str, problem: str, hint: str = "correct or remove the line"
    ) -> InputError:
        """Return the error about one cell."""
        return InputError(f"{self.path}:{self.line}: {column}: {problem}", hint=hint)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file, unpacked where its name ends in `.gz`.

    Raises:
        InputError: it is absent, unreadable, cut short or not UTF-8.
    """
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="check the path") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder, not a file", hint="name a file in it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not a whole gzip file: {error}", hint="fetch it again") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}:{line}: byte {error.start} is not UTF-8", hint="save the file as UTF-8 text"
        ) from None
    return text.splitlines()


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a comma-separated file whose first line names its columns.

    Blank lines are passed over; columns that are not asked for are there all the same.

    Raises:
        InputError: as `read_lines`; a column is absent or stands twice, or a line has more or
            fewer cells than there are columns.
    """
    return rows_in(path, read_lines(path), columns)


def rows_in(path: Path, lines: Sequence[str], columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a comma-separated file whose lines were read: see `read_rows`."""
    if not lines:
        raise InputError(f"{path}:1: is empty", hint=f"wanted columns: {', '.join(columns)}")
    reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(reader)]
        for column in columns:
            if header.count(column) != 1:
                problem = "stands twice" if column in header else "is missing"
                raise InputError(
                    f"{path}:1: the column {column} {problem}",
                    hint=f"wanted columns: {', '.join(columns)}",
                )
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                at = header[min(len(cells), len(header) - 1)]
                raise InputError(
                    f"{path}:{reader.line_num}: {at}: {len(cells)} cells, but {len(header)}"
                    " columns",
                    hint="the line may be cut short",
                )
            yield Row(path, reader.line_num, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}", hint="correct the line") from None
