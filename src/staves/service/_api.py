"""The HTTP API, an application over a `Service`. Every error is {"error": ..., "hint": ...}."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

import staves
from staves.errors import InputError, StavesError, printable
from staves.service import (
    _routes_cluster,
    _routes_events,
    _routes_jobs,
    _routes_logs,
    _routes_snapshots,
)
from staves.service._facade import Refused, Service, UnknownName
from staves.service._guard import LOOPBACK, Guard

PREFIX = "/api/v1"
MOST_BYTES = 1 << 20
MOST_UPLOAD_BYTES = 1 << 30


def create_app(
    service: Service,
    *,
    scratch: Path,
    end: Callable[[], None],
    hosts: Collection[str] = LOOPBACK,
    most_bytes: int = MOST_BYTES,
    most_upload_bytes: int = MOST_UPLOAD_BYTES,
) -> FastAPI:
    """Return the application.

    Args:
        service: what answers.
        scratch: a folder for uploads under way, on the file system that keeps the snapshots.
        end: called once when somebody asks for the end of the service; returns at once.
        hosts: the names that requests may use for this service.
        most_bytes: the largest body but that of a snapshot.
        most_upload_bytes: the largest snapshot.
    """
    app = FastAPI(
        title="Staves",
        version=staves.__version__,
        description="Jobs on a cluster of unlike GPUs: submit, see, steer.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # those pages load their scripts from other hosts
        redoc_url=None,
    )
    app.state.service = service
    app.state.scratch = scratch
    app.state.most_upload_bytes = most_upload_bytes
    app.state.ending = threading.Event()
    app.state.answered = Counter[tuple[str, int]]()

    def end_once() -> None:
        if not app.state.ending.is_set():
            app.state.ending.set()
            end()

    app.state.end = end_once
    for routes in (_routes_jobs, _routes_logs, _routes_events, _routes_snapshots, _routes_cluster):
        app.include_router(routes.router, prefix=PREFIX)
    app.include_router(_routes_cluster.outside)
    app.add_exception_handler(StavesError, _failed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(Exception, _unexpected)
    app.add_middleware(
        Guard,
        hosts=frozenset(hosts),
        most_bytes=most_bytes,
        most_upload_bytes=most_upload_bytes,
        uploads=f"{PREFIX}/snapshots/",
        answered=app.state.answered,
    )
    return app


def _status(error: StavesError) -> int:
    if isinstance(error, UnknownName):
        return 404
    if isinstance(error, Refused):
        return 409
    return 422 if isinstance(error, InputError) else 500


def _answer(status: int, message: str, hint: str | None = None) -> JSONResponse:
    return JSONResponse({"error": printable(message), "hint": hint}, status)


async def _failed(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StavesError)
    return _answer(_status(error), error.message, error.hint)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    answer = _answer(error.status_code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


async def _malformed(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return _answer(422, f"{where}: {first['msg']}", f"see {PREFIX}/openapi.json")


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    # The server logs the traceback; whoever asked learns nothing of its inside.
    return _answer(500, "the service failed to answer", "its log says more: controller.log")
