"""Jobs: submit them, see them, steer them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header
from pydantic import BaseModel, ConfigDict, Field

from staves.service._callers import Reader, TheService, Writer, find_job
from staves.service._facade import Document, UnknownName

router = APIRouter(tags=["jobs"])

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{16,128}$")]


class Submission(BaseModel):
    """A job and the hash of its working directory, which has been uploaded before."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any]
    snapshot: Hash


class Check(BaseModel):
    """A job that might be submitted."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any]


class Scale(BaseModel):
    """How many devices a job shall have; null: as is best for all."""

    model_config = ConfigDict(extra="forbid")

    devices: Annotated[int, Field(ge=1, strict=True)] | None


@router.get("/jobs")
def list_jobs(service: TheService, caller: Reader, all: bool = False) -> Document:
    """List the jobs that have not ended, or all of them."""
    return {"jobs": service.jobs(everything=all, owner=caller.owner)}


@router.post("/jobs", status_code=201)
def submit(
    submission: Submission,
    service: TheService,
    caller: Writer,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Document:
    """Queue a job. Repeated with the same key it gives the same job."""
    if not service.has_snapshot(submission.snapshot):
        raise UnknownName(
            f"there is no snapshot {submission.snapshot}", hint="upload it before the job"
        )
    return service.submit(
        submission.document, submission.snapshot, owner=caller.user, key=idempotency_key
    )


@router.post("/jobs/check")
def check(asked: Check, service: TheService, caller: Writer) -> Document:
    """Say whether a job could be submitted: an error says why not. Nothing is queued."""
    service.check(asked.document)
    return {"ok": True}


@router.get("/jobs/{job}")
def show(job: str, service: TheService, caller: Reader) -> Document:
    """Show one job, with its spans and its story."""
    return find_job(service, caller, job)


@router.post("/jobs/{job}/scale")
def scale(job: str, wanted: Scale, service: TheService, caller: Writer) -> Document:
    """Say how many devices a job shall have."""
    found = find_job(service, caller, job)
    return service.act(found["id"], "scale", {"devices": wanted.devices}, user=caller.user)


@router.post("/jobs/{job}/{action}")
def act(
    job: str, action: Literal["pause", "resume", "stop"], service: TheService, caller: Writer
) -> Document:
    """Steer a job."""
    return service.act(find_job(service, caller, job)["id"], action, {}, user=caller.user)


@router.get("/jobs/{job}/explain")
def explain(job: str, service: TheService, caller: Reader) -> Document:
    """Say why a job has the devices that it has, or none."""
    found = find_job(service, caller, job)
    return {"id": found["id"], "name": found["name"], **service.explain(found["id"])}
