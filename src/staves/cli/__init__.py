"""The command line: `staves plan`, `staves run`, ...

One file a command, all of them gathered in `_app`. Here: how every command begins and ends. Exit
codes: 0; 2 for malformed or infeasible input; 1 for what failed; 130 on Ctrl-C. Errors are one line
with a hint.
"""

from __future__ import annotations

import errno
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes a while to load, and Ctrl-C meanwhile would end in a traceback
    from collections.abc import Sequence
    from typing import TextIO

    from typer import Typer


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; every failure becomes one line and its exit code."""
    if sys.stderr is None:  # closed: messages go nowhere
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name must not fail on a terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(run_command(sys.argv[1:] if arguments is None else list(arguments)))
    finally:
        for stream in (sys.stdout, sys.stderr):
            _settle(stream)


def run_command(arguments: list[str]) -> int:
    """Run one command and return its exit code (see the module's text)."""
    if sys.stdout is None:  # its number would go to the next file that is opened
        return _fail("standard output is closed", "redirect it: > /dev/null", 1)
    try:  # no command has begun: Ctrl-C has nothing to interrupt, and nothing to say
        from staves.cli._app import app
    except KeyboardInterrupt:
        return 130
    from staves.errors import StavesError

    before = os.fstat(1)
    try:
        code = _exit_code(app, arguments)
        sys.stdout.flush()
        return _fail("interrupted", None, 130) if code == 130 else code
    except StavesError as error:
        return _fail(error.message, error.hint, error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", None, 130)
    except OSError as error:
        return _from_os(error, before)
    except Exception as error:
        if type(error).__name__ == "Abort":
            return _fail("interrupted", None, 130)
        if hasattr(error, "format_message"):  # the parser's own errors
            code = int(getattr(error, "exit_code", 2))
            message = " ".join(str(error.format_message()).split())
            # Without a message it was `staves` alone, and the help stands there already.
            return _fail(message, "see: staves --help", code) if message else code
        raise


def _exit_code(app: Typer, arguments: list[str]) -> int:
    """Run the application; raises what it raises, a broken pipe as well."""
    try:
        result = app(arguments, prog_name="staves", standalone_mode=False)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # the parser has made an exit of it
            raise end.__context__ from None
        raise
    return result if isinstance(result, int) else 0


def _from_os(error: OSError, before: os.stat_result) -> int:
    if error.errno == errno.EPIPE and _reader_gone(
        before
    ):  # `head`, say: that is no failure of ours
        _silence(1)
        return 0
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        # What is still buffered would fail again, with a traceback, when Python exits.
        _silence(1)
        return _fail(f"{where}the disk is full", "free some space and run this again", 1)
    return _fail(f"{where}{error.strerror or error}", None, 1)


def _reader_gone(before: os.stat_result) -> bool:
    """Say whether nobody reads standard output any more; `before` is what it was at first."""
    import select

    if not os.path.samestat(os.fstat(1), before):  # rich has put /dev/null there
        return True
    poll = select.poll()
    poll.register(1, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _fail(message: str, hint: str | None, code: int) -> int:
    from staves.errors import printable

    line = printable(f"staves: {message}" + (f" ({hint})" if hint else ""))
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:  # full or gone: the exit code says what there is to say
        _settle(sys.stderr)
    return code


def _settle(stream: TextIO | None) -> None:
    """Write out what the stream still holds, or drop it: Python would fail on it at its exit."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        _silence(1 if stream is sys.stdout else 2)


def _silence(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
