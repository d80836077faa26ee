"""`staves history`: how fast the jobs of the service were measured to be."""

from __future__ import annotations

import csv
import sys
from typing import Annotated

import typer

from staves.cli._output import print_json
from staves.cli._service import AsJson, client, print_table
from staves.errors import InputError

_COLUMNS = ("job", "device_type", "devices", "nodes", "throughput")
_TOLD = (*_COLUMNS, "source")


def history(
    as_json: AsJson = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print what `staves estimate --history` reads.")
    ] = False,
) -> None:
    """List how fast jobs were measured to be: samples a second, by type and number of devices.

    Jobs are named by their ids. Of mixed devices each type is told by the job's step-time model:
    rows from `model` follow from it.
    """
    if as_json and as_csv:
        raise InputError("--json and --csv contradict each other", hint="give one of them")
    with client() as service:
        rows = service.history()
    if as_json:
        print_json({"history": rows})
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, _COLUMNS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    elif not rows:
        typer.echo("staves: no job has been measured")
    else:
        print_table(
            ("job", "type", "devices", "nodes", "samples/s", "from"),
            [tuple(row.get(name) for name in _TOLD) for row in rows],
        )
