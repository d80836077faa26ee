"""The application: every command, and the options of `staves` itself."""

from __future__ import annotations

import typer

import staves
from staves.cli._doctor import doctor
from staves.cli._plan import plan
from staves.cli._run import SETTINGS, run
from staves.cli._scale import scale
from staves.cli._schema import schema

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
app.command()(schema)
