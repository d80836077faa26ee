"""Dates and times of day as public files write them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from staves.errors import quoted
from staves.simulation._csv import Row

_FORM = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?", re.ASCII)
_ZERO, _SECOND = datetime(2000, 1, 1), timedelta(seconds=1)


def seconds_of(row: Row, column: str) -> float:
    """Return the seconds from the year 2000 to `YYYY-MM-DD` or `YYYY-MM-DD HH:MM:SS`.

    There is no zone: a change of the clock is a gap, or an hour that comes twice.

    Raises:
        InputError: the cell is no such time.
    """
    text = row.text(column)
    if _FORM.fullmatch(text):
        try:
            return (datetime.fromisoformat(text) - _ZERO) / _SECOND
        except ValueError:  # a 13th month, say
            pass
    raise row.error(column, f"{quoted(text)} is not YYYY-MM-DD HH:MM:SS")
