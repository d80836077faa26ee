"""`staves submit`: queue jobs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from staves.cli._output import messages, print_json
from staves.cli._service import AsJson, client, service_packages
from staves.engines.local import staves_home


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job that is ready to be submitted.

    Args:
        document: what its file says.
        snapshot: the hash of its working directory.
        folder: which holds the content of the snapshot, and nothing else.
    """

    document: dict[str, Any]
    snapshot: str
    folder: Path


def submit(
    files: Annotated[list[Path], typer.Argument(help="Job files.", metavar="FILE...")],
    as_json: AsJson = False,
) -> None:
    """Queue the jobs of job files, with their working directories as they are now.

    All files are read before the first job is queued.
    """
    waiting = messages.status("packing the working directories")
    with waiting if messages.is_terminal else contextlib.nullcontext():
        prepared = [prepare(file) for file in files]
    with client() as service:
        for job in prepared:
            service.put_snapshot(job.snapshot, job.folder)
        jobs = []
        for job in prepared:
            jobs.append(service.submit(job.document, job.snapshot))
            if not as_json:
                typer.echo(f"staves: {jobs[-1]['name']} is job {jobs[-1]['id']}")
    if as_json:
        print_json({"jobs": jobs})


def prepare(file: Path) -> Prepared:
    """Read a job file and pack its working directory.

    Raises:
        InputError: the file is malformed, or the working directory is too large.
    """
    with service_packages():
        from staves import service
    home = staves_home()
    spec = service.read_job(file)
    snapshot = service.pack_job(spec, home)
    return Prepared(spec.to_document(), snapshot.hash, home / "snapshots" / snapshot.hash)
