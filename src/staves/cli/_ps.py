"""`staves ps`: the jobs."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.live import Live

from staves.cli._output import output, print_json
from staves.cli._service import AsJson, ago, client, configuration, epoch, print_table, table
from staves.errors import InputError

_COLUMNS = ("id", "name", "state", "devices", "epoch", "step", "loss", "submitted", "reason")
_EVERY = 1.0  # seconds


def ps(
    everything: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing, until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the jobs."""
    if watch and as_json:
        raise InputError("--watch: not with --json", hint="one of the two")
    with client() as service:
        if watch:
            with Live(console=output(), auto_refresh=False, screen=output().is_terminal) as live:
                while True:
                    jobs = service.jobs(everything=everything)
                    shown = table(_COLUMNS, map(_row, jobs), one_line=True)
                    live.update(shown, refresh=True)
                    time.sleep(_EVERY)
        jobs = service.jobs(everything=everything)
    if as_json:
        print_json({"jobs": jobs})
    elif jobs:
        print_table(_COLUMNS, map(_row, jobs), one_line=True)
    else:
        typer.echo("staves: no jobs" if everything else "staves: no jobs (those ended: --all)")


def _row(job: dict[str, Any]) -> tuple[object, ...]:
    progress = job["progress"] or {}
    return (
        job["id"],
        job["name"],
        job["state"],
        configuration(job["devices"]) if job["devices"] else None,
        epoch(job),
        progress.get("step"),
        progress.get("loss"),
        ago(job["submitted"]),
        job["reason"] or job.get("pending", ""),
    )
