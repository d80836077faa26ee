"""Snapshots: the working directories of jobs, by the hash of their content."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, BinaryIO

import fastapi
from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from staves.service._callers import Reader, TheService, Writer
from staves.service._facade import Service, UnknownName
from staves.service._tar import read_tar

router = APIRouter(tags=["snapshots"])

MOST_MEMBERS = 100_000
Hash = Annotated[str, fastapi.Path(pattern=r"^[0-9a-f]{16,128}$")]


@router.head("/snapshots/{snapshot}", status_code=204)
def has_snapshot(snapshot: Hash, service: TheService, caller: Reader) -> Response:
    """Say whether a snapshot is here: 204, or 404."""
    if not service.has_snapshot(snapshot):
        raise UnknownName(f"there is no snapshot {snapshot}")
    return Response(status_code=204)


@router.put("/snapshots/{snapshot}", status_code=204)
async def put_snapshot(
    snapshot: Hash, request: Request, service: TheService, caller: Writer
) -> Response:
    """Keep a snapshot: an uncompressed tar. One that is here already is left as it is."""
    scratch: Path = request.app.state.scratch
    with tempfile.TemporaryFile(dir=scratch) as file:
        async for part in request.stream():
            await run_in_threadpool(file.write, part)
        await run_in_threadpool(
            _keep, service, snapshot, file, scratch, request.app.state.most_upload_bytes
        )
    return Response(status_code=204)


def _keep(service: Service, snapshot: str, file: BinaryIO, scratch: Path, most: int) -> None:
    if service.has_snapshot(snapshot):
        return
    file.seek(0)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".upload-") as folder:
        content = Path(folder) / "content"
        content.mkdir()
        read_tar(file, content, most_bytes=most, most_members=MOST_MEMBERS)
        service.put_snapshot(snapshot, content)
