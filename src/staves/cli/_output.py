"""What commands print: one JSON document on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any, NoReturn

import typer
from rich.console import Console


class _Output(Console):
    """A console of plain text: no markup, since most of what is printed is people's own words."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> NoReturn:
        raise  # it is being handled; what becomes of it is decided where commands end


class _Messages(_Output):
    """Standard error. Where it is full or gone, a message is lost; no command fails for it."""

    def print(self, *objects: Any, **options: Any) -> None:
        with contextlib.suppress(OSError):
            super().print(*objects, **{"soft_wrap": True, **options})  # a message is one line


messages = _Messages(stderr=True)
"""Progress and messages: never on standard output, where `--json` prints its document."""


def warn(line: str) -> None:
    """Print a warning, as it is."""
    messages.print(f"staves: warning: {line}", markup=False)


def output() -> Console:
    """Return a console on standard output, for what a command prints for people."""
    return _Output()


def print_json(document: Any) -> None:
    """Print one JSON document; infinities become null, since JSON has none."""
    typer.echo(json.dumps(finite(document)))


def finite(value: Any) -> Any:
    """Return `value` with null in place of what JSON has no number for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
