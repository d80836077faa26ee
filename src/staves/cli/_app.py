"""The application: every command, and the options of `staves` itself."""

from __future__ import annotations

import typer

import staves
from staves.cli._doctor import doctor
from staves.cli._down import down
from staves.cli._estimate import estimate
from staves.cli._explain import explain
from staves.cli._export import export
from staves.cli._history import history
from staves.cli._links import links
from staves.cli._logs import logs
from staves.cli._nodes import drain, nodes, undrain
from staves.cli._plan import plan
from staves.cli._profile import profile
from staves.cli._ps import ps
from staves.cli._queue import queue
from staves.cli._run import SETTINGS, run
from staves.cli._scale import scale
from staves.cli._schema import schema
from staves.cli._show import show
from staves.cli._simulate import policies, simulate
from staves.cli._status import status
from staves.cli._steer import pause, resume, stop
from staves.cli._submit import submit
from staves.cli._trace import trace
from staves.cli._up import up

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
app.command(context_settings=SETTINGS)(profile)
app.command()(up)
app.command()(down)
app.command()(status)
app.command()(submit)
app.command()(ps)
app.command()(show)
app.command()(explain)
app.command()(logs)
app.command()(scale)
app.command()(pause)
app.command()(resume)
app.command()(stop)
app.command()(nodes)
app.command()(drain)
app.command()(undrain)
app.command()(links)
app.command()(queue)
app.command()(simulate)
app.command()(policies)
app.command()(estimate)
app.command()(history)
app.add_typer(trace, name="trace")
app.command()(export)
app.command()(doctor)
app.command()(schema)
