"""`staves scale`: give a running job more devices, or fewer."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from staves.cli._output import print_json
from staves.cli._service import AsJson, client, complete_jobs, service_packages
from staves.engines.local import RunFolder, ask, staves_home
from staves.errors import InputError, quoted


def scale(
    job: Annotated[
        str,
        typer.Argument(
            help="A job of the service, by id or name; or a run: its name, its script's name, or "
            "`latest`.",
            metavar="JOB",
            autocompletion=complete_jobs,
        ),
    ],
    devices: Annotated[
        str,
        typer.Argument(
            help="How many devices it shall have; `auto`, for a job of the service: as is best "
            "for all.",
            metavar="N",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Grow or shrink a running job in place; it goes on training meanwhile."""
    unknown = None
    count = _count(devices)
    if _has_service():
        document, unknown = _scale_job(job, count)
        if document is not None:
            if as_json:
                print_json(document)
            else:
                typer.echo(f"staves: {document['name']} (job {document['id']}): {devices} wanted")
            return
    try:
        folder = RunFolder.find(staves_home(), job)
    except InputError as error:
        raise unknown or error from None
    if count is None:
        raise InputError(f"{folder.name} is a run: it has no scheduler", hint="name a number")
    answer = ask(folder, scale=count)
    if as_json:
        print_json({"job": folder.name, **answer})
    else:
        now, wanted = len(answer["devices"]), len(answer["wanted"])
        typer.echo(f"staves: {folder.name}: {now} devices now, {wanted} wanted")


def _count(devices: str) -> int | None:
    """Return how many are meant; None for `auto`."""
    if devices == "auto":
        return None
    if not devices.isascii() or not devices.isdigit() or not 1 <= int(devices) < 2**31:
        raise InputError(
            f"{quoted(devices)} is not a number of devices", hint="1 or more, or `auto`"
        )
    return int(devices)


def _has_service() -> bool:
    """Say whether a service may know the job. Runs of `staves run` need none, nor its packages."""
    if os.environ.get("STAVES_URL"):
        return True
    from staves.service import ServiceFolder

    return ServiceFolder(staves_home()).state != "absent"


def _scale_job(job: str, devices: int | None) -> tuple[dict[str, Any] | None, InputError | None]:
    """Return the job's document, or the error that says the service does not know it."""
    with service_packages():
        from staves.service import UnknownName
    with client() as service:
        try:
            return service.act(job, "scale", devices=devices), None
        except UnknownName as error:
            return None, error
