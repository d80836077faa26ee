"""`staves pause`, `resume` and `stop`: steer a job."""

from __future__ import annotations

from typing import Literal

import typer

from staves.cli._output import print_json
from staves.cli._service import AsJson, Job, client


def pause(job: Job, as_json: AsJson = False) -> None:
    """Save a job and take its devices; it keeps its place in the service."""
    _steer(job, "pause", as_json)


def resume(job: Job, as_json: AsJson = False) -> None:
    """Queue a paused job again; it goes on from where it was saved."""
    _steer(job, "resume", as_json)


def stop(job: Job, as_json: AsJson = False) -> None:
    """Cancel a job; one that runs is saved first."""
    _steer(job, "stop", as_json)


def _steer(job: str, action: Literal["pause", "resume", "stop"], as_json: bool) -> None:
    with client() as service:
        document = service.act(job, action)
    if as_json:
        print_json(document)
    else:
        typer.echo(f"staves: {document['name']} (job {document['id']}) is {document['state']}")
