"""Events tell the caller's jobs, and tell them again only when they have changed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

from staves.service._facade import Caller
from staves.service._routes_events import job_events
from tests.service.conftest import HASH
from tests.service.fake import FakeService


def jobs_of(event: str) -> list[dict[str, Any]]:
    name, data, *rest = event.split("\n")
    assert name == "event: jobs"
    assert rest == ["", ""], "an event ends with one empty line"
    jobs: list[dict[str, Any]] = json.loads(data.removeprefix("data: "))
    return jobs


def test_jobs_are_told_at_every_change(tmp_path: Path) -> None:
    service = FakeService(tmp_path)
    document = {"run": "true", "name": "two\nlines"}

    async def listen() -> None:
        events = cast(
            "AsyncGenerator[str]", job_events(service, Caller("ada", "user"), look_every=0.01)
        )
        async with contextlib.aclosing(events):
            assert jobs_of(await anext(events)) == []
            service.submit(document, HASH, owner="bob", key=None)  # no news for ada
            service.submit(document, HASH, owner="ada", key=None)
            (job,) = jobs_of(await anext(events))
            assert (job["id"], job["name"]) == ("2", "two\nlines")
            service.act("2", "pause", {}, user="ada")
            assert jobs_of(await anext(events))[0]["state"] == "paused"
            service.submitted[1]["progress"] = {"loss": math.nan}
            assert jobs_of(await anext(events))[0]["progress"] == {"loss": None}
            service.act("2", "stop", {}, user="ada")
            assert jobs_of(await anext(events)) == []

    asyncio.run(listen())


def test_silence_is_broken(tmp_path: Path) -> None:
    async def listen() -> str:
        events = cast(
            "AsyncGenerator[str]",
            job_events(FakeService(tmp_path), Caller("ada", "user"), look_every=0.001),
        )
        async with contextlib.aclosing(events):
            await anext(events)
            return await anext(events)

    import staves.service._routes_events as module

    before, module._ALIVE_EVERY = module._ALIVE_EVERY, 0.002
    try:
        assert asyncio.run(listen()) == ": alive\n\n"
    finally:
        module._ALIVE_EVERY = before
