"""The command line that the single checks of this benchmark share."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch

from benchmarks import command
from staves.errors import InputError

Document = dict[str, Any]


def run(
    module: str,
    about: str | None,
    measure: Callable[[], Document],
    told: Callable[[Document], Sequence[str]],
) -> NoReturn:
    """Measure, tell people on standard error, write the JSON document, and exit.

    Args:
        module: that is run.
        about: its docstring.
        measure: returns the document.
        told: its lines for people.
    """
    command.run(f"benchmarks.training.{module}", lambda: _run(module, about, measure, told))


def _run(
    module: str,
    about: str | None,
    measure: Callable[[], Document],
    told: Callable[[Document], Sequence[str]],
) -> None:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.training.{module}")
    parser.description = (about or "").partition("\n")[0]
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="for the document; default: standard output"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.json is not None:
        _check_writable(options.json)
    document = measure()
    print("\n".join(told(document)), file=sys.stderr)
    text = json.dumps(document, indent=2) + "\n"
    if options.json is None:
        sys.stdout.write(text)
    else:
        options.json.write_text(text)


def _check_writable(file: Path) -> None:
    """Find out before anything is measured whether the document can be written."""
    try:
        new = not file.exists()
        with file.open("a"):
            pass
        if new:
            file.unlink()
    except OSError as error:
        raise InputError(
            f"--json: {file}: {error.strerror}", hint="name a file that can be written"
        ) from error


def progress(text: str) -> None:
    """Say what is being measured, with the machine's load of the last minute."""
    print(f"benchmarks: {text} (load {os.getloadavg()[0]:.1f}) ...", file=sys.stderr, flush=True)
