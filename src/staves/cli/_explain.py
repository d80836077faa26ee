"""`staves explain`: why a job has the devices that it has."""

from __future__ import annotations

from typing import Any

import typer

from staves.cli._output import print_json
from staves.cli._service import AsJson, Job, client, lasting, print_table
from staves.errors import printable


def explain(job: Job, as_json: AsJson = False) -> None:
    """Say why a job has the devices that it has, or none, and what the alternatives were."""
    with client() as service:
        document = service.explain(job)
    if as_json:
        print_json(document)
        return
    typer.echo(f"{document['name']} (job {document['id']}): {printable(document['text'])}")
    options = [("chosen", document["chosen"])] if document["chosen"] else []
    options += [("", option) for option in document["alternatives"]]
    if options:
        print_table(
            ("", "devices", "samples/s", "to its end", "utility", "why not"), map(_row, options)
        )


def _row(option: tuple[str, dict[str, Any]]) -> tuple[object, ...]:
    mark, what = option
    seconds = what.get("seconds")  # None: no end is known
    return (
        mark or " ",
        what["configuration"],
        what.get("rate"),
        None if seconds is None else lasting(seconds),
        what.get("utility"),
        None if mark else what.get("why"),
    )
