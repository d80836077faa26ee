"""`staves scale`: give a running job more devices, or fewer."""

from __future__ import annotations

from typing import Annotated

import typer

from staves.cli._output import print_json
from staves.engines.local import RunFolder, ask, staves_home


def scale(
    job: Annotated[
        str, typer.Argument(help="A run: its name, its script's name, or `latest`.", metavar="JOB")
    ],
    devices: Annotated[int, typer.Argument(help="How many devices it shall have.", metavar="N")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Grow or shrink a running job in place; it goes on training meanwhile."""
    folder = RunFolder.find(staves_home(), job)
    answer = ask(folder, scale=devices)
    if as_json:
        print_json({"job": folder.name, **answer})
    else:
        now, wanted = len(answer["devices"]), len(answer["wanted"])
        typer.echo(f"staves: {folder.name}: {now} devices now, {wanted} wanted")
