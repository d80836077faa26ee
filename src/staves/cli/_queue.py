"""`staves queue`: the jobs that wait."""

from __future__ import annotations

import typer

from staves.cli._output import print_json
from staves.cli._service import AsJson, client, print_table


def queue(as_json: AsJson = False) -> None:
    """List the jobs that wait, the next one first, who is ahead of each, and why it waits."""
    with client() as service:
        waiting = service.queue()
    if as_json:
        print_json({"queue": waiting})
    elif not waiting:
        typer.echo("staves: no job waits")
    else:
        rows = (
            (w["position"], w["id"], w["name"], len(w["ahead"] or ()), w["waits"]) for w in waiting
        )
        print_table(("position", "id", "name", "ahead", "waits"), rows)
