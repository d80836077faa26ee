"""Logs: a file for each attempt and rank, read piece by piece from any offset."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Response

from staves.documents import suggestion
from staves.errors import quoted
from staves.service._callers import Reader, TheService, find_job
from staves.service._facade import ENDED, Document, UnknownName

router = APIRouter(tags=["logs"])

MOST_BYTES = 1 << 20
Attempt = Annotated[int | None, Query(ge=1)]


@router.get("/jobs/{job}/logs")
def list_logs(job: str, service: TheService, caller: Reader, attempt: Attempt = None) -> Document:
    """List the logs of an attempt, the newest one by default, with their sizes in bytes."""
    found = find_job(service, caller, job)
    logs = service.logs(found["id"], attempt)
    return {
        "id": found["id"],
        "name": found["name"],
        "attempt": attempt or found["attempt"],
        "ended": found["state"] in ENDED,
        "logs": [{"name": name, "size": _size(path)} for name, path in sorted(logs.items())],
    }


@router.get("/jobs/{job}/logs/{name}", response_class=Response)
def read_log(
    job: str,
    name: str,
    service: TheService,
    caller: Reader,
    offset: Annotated[
        int, Query(description="In bytes; a negative one counts from the end.", ge=-(1 << 62))
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_BYTES)] = MOST_BYTES,
    attempt: Attempt = None,
) -> Response:
    """Return bytes of a log from `offset` on, at most `limit` of them.

    The header Staves-Next-Offset says where to go on; past the end of the file the body is empty.
    """
    logs = service.logs(find_job(service, caller, job)["id"], attempt)
    if name not in logs:  # a name is looked up, and never part of a path
        raise UnknownName(f"there is no log {quoted(name)}", hint=suggestion(name, logs))
    begin, data = _read(logs[name], offset, limit)
    return Response(
        data,
        media_type="text/plain; charset=utf-8",
        headers={"Staves-Next-Offset": str(begin + len(data)), "X-Content-Type-Options": "nosniff"},
    )


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:  # its rank has not printed yet
        return 0


def _read(path: Path, offset: int, limit: int) -> tuple[int, bytes]:
    """Return where the bytes begin, and them. A job may not turn its log into a link elsewhere."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return max(offset, 0), b""
    except OSError as error:
        raise UnknownName(f"the log cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        begin = offset if offset >= 0 else max(os.fstat(descriptor).st_size + offset, 0)
        return begin, os.pread(file.fileno(), limit, min(begin, 1 << 62))
