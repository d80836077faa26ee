"""The command line: `staves plan`, `staves run`, ...

One file a command. Here: the application, and how every command ends. Exit codes: 0; 2 for
malformed or infeasible input; 1 for what failed; 130 on Ctrl-C. Errors are one line with a hint.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

import typer

import staves
from staves.cli._doctor import doctor
from staves.cli._plan import plan
from staves.cli._run import SETTINGS, run
from staves.cli._scale import scale
from staves.errors import StavesError

app = typer.Typer(
    name="staves",
    help="Elastic PyTorch training on clusters of unlike GPUs.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"staves {staves.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Elastic PyTorch training on clusters of unlike GPUs."""


app.command()(plan)
app.command(context_settings=SETTINGS)(run)
app.command()(scale)
app.command()(doctor)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; every failure becomes one line and its exit code."""
    sys.exit(run_command(sys.argv[1:] if arguments is None else list(arguments)))


def run_command(arguments: list[str]) -> int:
    """Run one command and return its exit code (see the module's text)."""
    try:
        result = app(arguments, prog_name="staves", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except StavesError as error:
        return _fail(error.message, error.hint, error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", None, 130)
    except OSError as error:
        return _from_os(error)
    except Exception as error:
        if hasattr(error, "format_message"):  # the parser's own errors
            message = " ".join(str(error.format_message()).split())
            return _fail(message, "see: staves --help", int(getattr(error, "exit_code", 2)))
        raise


def _from_os(error: OSError) -> int:
    if error.errno == errno.EPIPE:  # the reader (`head`, say) has gone: that is no failure of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        # What is still buffered would fail again, with a traceback, when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _fail(f"{where}the disk is full", "free some space and run this again", 1)
    return _fail(f"{where}{error.strerror or error}", None, 1)


def _fail(message: str, hint: str | None, code: int) -> int:
    print(f"staves: {message}" + (f" ({hint})" if hint else ""), file=sys.stderr)
    return code
