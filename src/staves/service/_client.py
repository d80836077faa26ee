"""How commands and scripts reach a service, also while its controller is being started again."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import httpx

from staves.errors import InputError, StavesError
from staves.service._facade import Action, Document, Refused, UnknownName
from staves.service._folder import ServiceFolder
from staves.service._tar import write_tar

_AGAIN = 0.2  # seconds between two tries
_LONG = 1.5  # seconds of waiting that want a word
_SILENT = 5.0  # seconds without an answer that want one


class _NotYet(StavesError):
    """The service cannot be reached now, and may be in a moment."""


class Client:
    """A client of the service that STAVES_URL names, or of the one whose data `home` holds.

    Every method raises `UnknownName`, `Refused` or `InputError` for what the service refuses, and
    `StavesError` where it fails or cannot be reached. A request that has not arrived, or may be
    repeated, is tried again while the service is being started again.

    Args:
        home: the folder of everything Staves keeps.
        environ: with STAVES_URL and STAVES_TOKEN, perhaps.
        patience: seconds for which a request is tried again.
        timeout: seconds in which one try must be answered.
        waiting: told, once a request, what it waits for when that takes long.
    """

    def __init__(
        self,
        home: Path,
        *,
        environ: Mapping[str, str] = os.environ,
        patience: float = 8.0,
        timeout: float = 30.0,
        waiting: Callable[[str], None] = lambda _: None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._folder = ServiceFolder(home)
        self._url = environ.get("STAVES_URL", "").rstrip("/")
        self._token = environ.get("STAVES_TOKEN", "")
        self._patience = patience
        self._waiting = waiting
        if self._url and not self._url.startswith(("http://", "https://")):
            raise InputError(
                f"STAVES_URL: {self._url} is no URL", hint="such as http://127.0.0.1:8000"
            )
        if not (self._token.isascii() and self._token.isprintable()):
            raise InputError(
                "STAVES_TOKEN: is no token: it has characters in it that no token has",
                hint="copy it from the file that `staves up --json` names",
            )
        # A proxy of the environment is not meant for this machine's own loopback.
        self._http = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=min(timeout, 5.0)),
            trust_env=bool(self._url),
            transport=transport,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def jobs(self, *, everything: bool = False) -> list[Document]:
        """Return the jobs that have not ended, or all."""
        jobs: list[Document] = self._get("/jobs", all=everything)["jobs"]
        return jobs

    def job(self, job: str) -> Document:
        """Return one job, by id or name, with its spans and its story."""
        return self._get(f"/jobs/{_part(job)}")

    def check(self, document: Document) -> None:
        """Raise what `submit` would raise for this job; nothing is queued."""
        self._json("POST", "/jobs/check", json={"document": document})

    def submit(self, document: Document, snapshot: str) -> Document:
        """Queue a job, once, however often this has to be sent; the snapshot is there already."""
        return self._json(
            "POST",
            "/jobs",
            json={"document": document, "snapshot": snapshot},
            headers={"Idempotency-Key": uuid.uuid4().hex},
        )

    def act(self, job: str, action: Action, **arguments: Any) -> Document:
        """Steer a job; `scale` has the argument devices."""
        # Repeating these changes nothing (`Service.act`).
        path = f"/jobs/{_part(job)}/{action}"
        return self._json("POST", path, json=arguments if arguments else None)

    def explain(self, job: str) -> Document:
        """Return why a job has the devices that it has."""
        return self._get(f"/jobs/{_part(job)}/explain")

    def logs(self, job: str, attempt: int | None = None) -> Document:
        """Return the logs of an attempt: attempt, ended, and logs with their sizes."""
        return self._get(f"/jobs/{_part(job)}/logs", attempt=attempt)

    def read_log(
        self, job: str, log: str, *, offset: int = 0, attempt: int | None = None
    ) -> tuple[bytes, int]:
        """Return bytes of a log from `offset` on, and the offset to go on from."""
        path = f"/jobs/{_part(job)}/logs/{_part(log)}"
        answer = self._ask("GET", path, params=_given(offset=offset, attempt=attempt))
        return answer.content, int(answer.headers["Staves-Next-Offset"])

    def queue(self) -> list[Document]:
        """Return the jobs that wait, the next one first."""
        queue: list[Document] = self._get("/queue")["queue"]
        return queue

    def nodes(self) -> list[Document]:
        """Return the nodes and their devices."""
        nodes: list[Document] = self._get("/nodes")["nodes"]
        return nodes

    def drain(self, node: str, on: bool) -> Document:
        """Take a node out of use, or back into use."""
        return self._json("POST", f"/nodes/{_part(node)}/{'drain' if on else 'undrain'}")

    def decisions(self) -> list[Document]:
        """Return the last decisions, newest first."""
        decisions: list[Document] = self._get("/decisions")["decisions"]
        return decisions

    def history(self) -> list[Document]:
        """Return what jobs were measured at."""
        history: list[Document] = self._get("/history")["history"]
        return history

    def health(self) -> Document:
        """Return how the service stands."""
        return self._get("/health")

    def has_snapshot(self, snapshot: str) -> bool:
        """Say whether the service has a snapshot."""
        try:
            self._ask("HEAD", f"/snapshots/{snapshot}")
        except UnknownName:
            return False
        return True

    def put_snapshot(self, snapshot: str, folder: Path) -> None:
        """Upload what `folder` holds, unless the service has it."""
        if self.has_snapshot(snapshot):
            return
        with tempfile.TemporaryFile() as file:
            write_tar(folder, file)
            self._ask("PUT", f"/snapshots/{snapshot}", file=file)

    def shutdown(self) -> None:
        """Have the service end all jobs, saved first and queued again, and then itself."""
        self._ask("POST", "/shutdown")

    def _get(self, path: str, **parameters: Any) -> Document:
        return self._json("GET", path, params=_given(**parameters))

    def _json(self, method: str, path: str, **options: Any) -> Document:
        answer = self._ask(method, path, **options)
        document: Document = answer.json()
        return document

    def _ask(
        self, method: str, path: str, *, file: BinaryIO | None = None, **options: Any
    ) -> httpx.Response:
        begun, told = time.monotonic(), False
        while True:
            try:
                return self._try(method, path, file, options)
            except _NotYet as error:
                waited = time.monotonic() - begun
                if waited >= self._patience:
                    raise
                if waited >= _LONG and not told:
                    told = True
                    self._waiting(error.message)
            time.sleep(_AGAIN)

    def _try(
        self, method: str, path: str, file: BinaryIO | None, options: dict[str, Any]
    ) -> httpx.Response:
        url, token = self._where()
        headers = {**options.pop("headers", {}), "Authorization": f"Bearer {token}"}
        options["headers"] = headers
        if file is not None:
            file.seek(0)
            options["content"] = file
        silence = threading.Timer(
            _SILENT, self._waiting, (f"the service at {url} has not answered for {_SILENT:g} s",)
        )
        silence.daemon = True
        silence.start()
        try:
            answer = self._http.request(method, f"{url}/api/v1{path}", **options)
        except httpx.InvalidURL as error:
            raise InputError(f"STAVES_URL: {error}") from None
        except httpx.TransportError as error:
            raise _NotYet(
                f"the service at {url} does not answer: {error or type(error).__name__}",
                hint="is its machine up?" if self._url else f"its log: {self._folder.log_file}",
            ) from None
        finally:
            silence.cancel()
        if not answer.is_success:
            raise _error(answer, url)
        return answer

    def _where(self) -> tuple[str, str]:
        """Return URL and token. The token of this machine goes to this machine's service only."""
        if self._url:
            # A dead controller's port may be another program's by now.
            address = self._folder.address() if self._folder.state == "up" else None
            own = address is not None and address[0] == self._url
            token = self._token or (self._folder.token() if own else None)
            if not token:
                raise StavesError(
                    f"there is no token for {self._url}", hint="STAVES_TOKEN holds it"
                )
            return self._url, token
        state, address = self._folder.state, self._folder.address()
        if state == "absent":
            raise StavesError("no service is running", hint="start it: staves up")
        if state == "dead":
            who = f"process {address[1]}" if address else "its process is gone"
            raise _NotYet(
                f"the service's controller has died ({who}); it does not answer",
                hint="`staves up` starts it again and takes its jobs over",
            )
        if address is None:
            raise _NotYet("the service is starting, or ending", hint="try again in a moment")
        token = self._token or self._folder.token()
        if not token:
            raise StavesError(
                f"{self._folder.token_file}: there is no token", hint="STAVES_TOKEN may hold it"
            )
        return address[0], token


def _given(**parameters: Any) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _part(name: str) -> str:
    """Return a name as one part of a path: a name with a slash, or of dots, is none that exists."""
    if "/" in name or name in ("", ".", ".."):
        raise UnknownName(f"{name!r} is no name", hint="see: staves ps, staves nodes")
    return quote(name, safe="")


def _error(answer: httpx.Response, url: str) -> StavesError:
    status = answer.status_code
    message, hint = f"{url} answered with status {status}", "is it a Staves service?"
    with contextlib.suppress(ValueError, KeyError, TypeError):
        told = answer.json()
        message, hint = str(told["error"]), told["hint"]
    kind: type[StavesError] = StavesError
    if status == 404:
        kind = UnknownName
    elif status == 409:
        kind = Refused
    elif status == 503:
        kind = _NotYet
    elif status == 401:
        hint = "STAVES_TOKEN holds another one, perhaps"
    elif 400 <= status < 500 and status != 403:
        kind = InputError
    return kind(message, hint=hint)
