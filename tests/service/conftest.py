"""An API over a service in memory, and one client for each role."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from staves.service import down
from staves.service._api import create_app
from staves.service._facade import Caller
from tests.service.fake import FakeService
from tests.service.world import World

HASH = "0123456789abcdef" * 4


class Asker:
    """A client that asks the application itself, without a network."""

    def __init__(self, app: FastAPI, token: str) -> None:
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._headers = {"Authorization": f"Bearer {token}-token"} if token else {}

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=self._transport, base_url="http://127.0.0.1:8000", headers=self._headers
            ) as client:
                return await client.request(method, path, **options)

        return asyncio.run(asked())

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer what another client asks, as its transport would."""

        async def asked() -> httpx.Response:
            answer = await self._transport.handle_async_request(
                httpx.Request(request.method, request.url, headers=request.headers, content=body)
            )
            content = await answer.aread()
            return httpx.Response(answer.status_code, headers=answer.headers, content=content)

        body = request.read()
        return asyncio.run(asked())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def put(self, path: str, **options: Any) -> httpx.Response:
        return self.request("PUT", path, **options)


Ask = Callable[[str], Asker]


@pytest.fixture
def service(tmp_path: Path) -> FakeService:
    service = FakeService(tmp_path)
    service.callers = {
        "root-token": Caller("root", "admin"),
        "ada-token": Caller("ada", "user"),
        "bob-token": Caller("bob", "user"),
        "viewer-token": Caller("ada", "viewer"),
    }
    service.snapshots[HASH] = tmp_path
    return service


@pytest.fixture
def ends() -> list[str]:
    return []


@pytest.fixture
def ask(service: FakeService, tmp_path: Path, ends: list[str]) -> Ask:
    """Return a client by the name of its token; no token for the empty name."""
    app = create_app(
        service,
        scratch=tmp_path,
        end=lambda: ends.append("end"),
        most_bytes=10_000,
        most_upload_bytes=100_000,
    )
    return lambda who: Asker(app, who)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[World]:
    """A service of real processes; nothing of it is left afterwards."""
    made = World(tmp_path)
    try:
        yield made
    finally:
        made.client.close()
        down(made.folder, grace=30.0)
