"""`staves down`: end the service."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import Annotated

import typer

from staves.cli._output import messages, print_json, warn
from staves.cli._service import AsJson, service_packages
from staves.documents import duration
from staves.engines.local import staves_home
from staves.errors import InputError


def down(
    grace: Annotated[
        str, typer.Option(help="For jobs to save themselves; then force is used.", metavar="TIME")
    ] = "2m",
    as_json: AsJson = False,
) -> None:
    """End the service and its jobs, which are saved first and go on at the next `staves up`."""
    with service_packages():
        from staves.service import ServiceFolder
        from staves.service import down as end
    try:
        seconds = duration(grace)
    except InputError as error:
        raise InputError(f"--grace: {error.message}", hint=error.hint) from None
    waiting = messages.status("ending the service; jobs save themselves first")
    with waiting if messages.is_terminal else contextlib.nullcontext():
        ended = end(ServiceFolder(staves_home()), grace=seconds)
    if ended.forced:
        warn("the controller had to be ended by force")
    if as_json:
        print_json(asdict(ended))
    elif ended.was == "absent" and not ended.leftovers:
        typer.echo("staves: no service was running")
    else:
        typer.echo("staves: the service has ended")
