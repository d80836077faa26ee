"""What every request passes before it is read: the host it names, and how much it may carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from staves.service._facade import Sample

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Guard:
    """ASGI middleware.

    Args:
        hosts: those that a request may name. A page of another site, whose name its owner lets
            point to this machine, names that site (DNS rebinding).
        most_bytes: the largest body.
        most_upload_bytes: the largest body under `uploads`, a path's start.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        most_bytes: int,
        most_upload_bytes: int,
        uploads: str,
        answered: Counter[tuple[str, int]],
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._most_bytes = most_bytes
        self._most_upload_bytes = most_upload_bytes
        self._uploads = uploads
        self._answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with a refusal."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answered[scope["method"], message["status"]] += 1
            await send(message)

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        most = self._most_bytes
        if scope["method"] == "PUT" and scope["path"].startswith(self._uploads):
            most = self._most_upload_bytes
        length = headers.get(b"content-length", "0")
        if _host(headers.get(b"host", "")) not in self._hosts:
            answer = _answer(421, "this service does not go by that name", "use its address")
        elif not length.isascii() or not length.isdigit():
            answer = _answer(400, "the length of the body is no number", None)
        elif int(length) > most:
            answer = _answer(413, f"the body is larger than {most} bytes", None)
        else:
            await self._app(scope, _limited(receive, most), counted)
            return
        await answer(scope, receive, counted)


def http_samples(answered: Counter[tuple[str, int]]) -> list[Sample]:
    """Return how many requests were answered, by method and status."""
    return [
        Sample(
            "staves_http_requests_total",
            count,
            "counter",
            "Requests answered.",
            {"method": method, "status": str(status)},
        )
        for (method, status), count in sorted(answered.items())
    ]


def _host(header: str) -> str:
    """Return the host of a Host header without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _limited(receive: Receive, most: int) -> Receive:
    """Count what comes in: a body in chunks does not say its length beforehand."""
    received = 0

    async def counting() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise HTTPException(413, f"the body is larger than {most} bytes")
        return message

    return counting


def _answer(status: int, message: str, hint: str | None) -> JSONResponse:
    return JSONResponse({"error": message, "hint": hint}, status)
