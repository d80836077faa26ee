"""How a benchmark's command ends: with 0, or with one line and an exit code.

2 for malformed input, 1 for what failed, 130 on Ctrl-C, as `staves` itself.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TextIO

from staves.errors import StavesError, printable

FULL = (errno.ENOSPC, errno.EDQUOT)


def run(program: str, command: Callable[[], None]) -> NoReturn:
    """Run a command and exit.

    Args:
        program: its name, for messages.
        command: what imports much does so in here: Ctrl-C may come at any time.
    """
    if sys.stderr is None:  # closed: `print` would write messages to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    try:
        sys.exit(_outcome(program, command))
    finally:
        for stream in (sys.stdout, sys.stderr):
            _settle(stream)


def hand_out(document: Mapping[str, Any], page: str, given: argparse.Namespace) -> None:
    """Write the page to the file `given.page`, if there is one; with `given.json`, print all."""
    if given.page:
        given.page.write_text(page, encoding="utf-8")
    if given.json:
        print(json.dumps(document, indent=2))


def _outcome(program: str, command: Callable[[], None]) -> int:
    if sys.stdout is None:  # its number would go to the next file that is opened
        return _fail(program, "standard output is closed (redirect it: > results.json)", 1)
    try:
        command()
        sys.stdout.flush()
    except StavesError as error:
        return _fail(program, str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail(program, "interrupted", 130)
    except OSError as error:
        to_stdout = error.filename is None and error.errno in (errno.EPIPE, *FULL)
        where = "standard output" if to_stdout else error.filename
        return _fail(program, f"{where}: {error.strerror}" if where else str(error), 1)
    return 0


def _fail(program: str, message: str, code: int) -> int:
    with contextlib.suppress(OSError):  # full or gone: the exit code says what there is to say
        print(printable(f"{program}: {message}"), file=sys.stderr, flush=True)
    return code


def _settle(stream: TextIO | None) -> None:
    """Write out what the stream still holds, or drop it: Python would fail on it at its exit."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1 if stream is sys.stdout else 2)
        os.close(null)
