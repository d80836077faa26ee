"""`staves submit`: queue jobs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staves.cli._output import messages, print_json
from staves.cli._service import AsJson, client, service_packages
from staves.engines.local import staves_home
from staves.errors import InputError

if TYPE_CHECKING:
    from staves.service import Client


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job that is ready to be submitted.

    Args:
        file: the job file.
        document: what its file says.
        snapshot: the hash of its working directory.
        folder: which holds the content of the snapshot, and nothing else.
    """

    file: Path
    document: dict[str, Any]
    snapshot: str
    folder: Path


def submit(
    files: Annotated[list[Path], typer.Argument(help="Job files.", metavar="FILE...")],
    as_json: AsJson = False,
) -> None:
    """Queue the jobs of job files, with their working directories as they are now.

    All jobs are checked before the first one is queued.
    """
    waiting = messages.status("packing the working directories")
    with waiting if messages.is_terminal else contextlib.nullcontext():
        prepared = [prepare(file) for file in files]
    with client() as service:
        for job in prepared:
            _check(service, job)
        for job in prepared:
            service.put_snapshot(job.snapshot, job.folder)
        jobs = []
        for job in prepared:
            jobs.append(service.submit(job.document, job.snapshot))
            if not as_json:
                typer.echo(f"staves: {jobs[-1]['name']} is job {jobs[-1]['id']}")
    if as_json:
        print_json({"jobs": jobs})


def _check(service: Client, job: Prepared) -> None:
    """Have the service check the job against its cluster; its errors name the file then."""
    try:
        service.check(job.document)
    except InputError as error:
        raise InputError(
            f"{job.file}: {error.message.removeprefix('job: ')}", hint=error.hint
        ) from None


def prepare(file: Path) -> Prepared:
    """Read a job file and pack its working directory.

    Raises:
        InputError: the file is malformed, or the working directory is too large.
    """
    if file.suffix == ".py":
        raise InputError(
            f"{file}: is a script, not a job file",
            hint=f"a job file has the line `run: python {file.name}`",
        )
    with service_packages():
        from staves import service
    home = staves_home()
    spec = service.read_job(file)
    snapshot = service.pack_job(spec, home)
    return Prepared(file, spec.to_document(), snapshot.hash, home / "snapshots" / snapshot.hash)
