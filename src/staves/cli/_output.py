"""What commands print: one JSON document on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
from typing import Any

import typer
from rich.console import Console

messages = Console(stderr=True, highlight=False)
"""Progress and messages: never on standard output, where `--json` prints its document."""


def print_json(document: Any) -> None:
    """Print one JSON document; infinities become null, since JSON has none."""
    typer.echo(json.dumps(_finite(document)))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
