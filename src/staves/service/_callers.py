"""Who asks, and what that one may see and do."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from staves.documents import suggestion
from staves.errors import quoted
from staves.service._facade import Caller, Document, Service, UnknownName

_bearer = HTTPBearer(auto_error=False, description="A token: as `staves up` makes one.")


def service_of(request: Request) -> Service:
    """Return the service that the application was made for."""
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(service_of)]
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]


def reader(service: TheService, credentials: _Credentials) -> Caller:
    """Return who asks; 401 without a token that is known."""
    found = service.caller(credentials.credentials) if credentials is not None else None
    if found is None:
        raise HTTPException(
            401,
            "a token is wanted" if credentials is None else "the token is not known here",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return found


def writer(request: Request, caller: Annotated[Caller, Depends(reader)]) -> Caller:
    """Return who asks; 403 for viewers, 503 for all once the service is going down."""
    if request.app.state.ending.is_set():
        raise HTTPException(503, "the service is going down")
    if caller.role == "viewer":
        raise HTTPException(403, "a viewer changes nothing")
    return caller


def administrator(caller: Annotated[Caller, Depends(reader)]) -> Caller:
    """Return who asks; 403 for anyone but administrators."""
    if caller.role != "admin":
        raise HTTPException(403, "only an administrator may do this")
    return caller


Reader = Annotated[Caller, Depends(reader)]
Writer = Annotated[Caller, Depends(writer)]
Administrator = Annotated[Caller, Depends(administrator)]


def find_job(service: Service, caller: Caller, name: str) -> Document:
    """Return the job of that id or name, of those that the caller may see.

    Raises:
        UnknownName: there is none; the hint is the nearest name, of those as well.
    """
    try:
        return service.job(name, owner=caller.owner)
    except UnknownName:
        jobs = service.jobs(everything=True, owner=caller.owner)
    known = {str(job[key]) for job in jobs for key in ("id", "name")}
    hint = suggestion(name, known) if known else "no job has been submitted yet"
    raise UnknownName(f"there is no job {quoted(name)}", hint=hint)
