"""Events: the caller's jobs, sent again whenever something about them has changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from staves.service._callers import Reader, TheService
from staves.service._facade import Caller, Service

router = APIRouter(tags=["events"])

_LOOK_EVERY = 0.5  # seconds
_ALIVE_EVERY = 15.0  # seconds: what lies between would close a connection that says nothing


@router.get("/events", response_class=StreamingResponse)
async def events(service: TheService, caller: Reader) -> StreamingResponse:
    """Stream server-sent events named `jobs`: the jobs that have not ended, at every change."""
    return StreamingResponse(job_events(service, caller), media_type="text/event-stream")


async def job_events(
    service: Service, caller: Caller, *, look_every: float = _LOOK_EVERY
) -> AsyncIterator[str]:
    """Yield the events for as long as somebody listens."""
    told, silent = "", 0.0
    while True:
        jobs = await run_in_threadpool(service.jobs, everything=False, owner=caller.owner)
        text = to_json(jobs, inf_nan_mode="null").decode()
        if text != told:
            told, silent = text, 0.0
            yield f"event: jobs\ndata: {text}\n\n"
        elif silent >= _ALIVE_EVERY:
            silent = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(look_every)
        silent += look_every
