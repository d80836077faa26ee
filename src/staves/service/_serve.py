"""The controller's process: lock, token, service and HTTP server, until it is told to end."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import cast

import uvicorn

from staves.errors import InputError
from staves.service._api import create_app
from staves.service._facade import Service
from staves.service._folder import ServiceFolder
from staves.service._leftovers import MARK
from staves.service._settings import Settings

_LETTING_GO = 3  # seconds for requests under way at the end


@dataclass(slots=True)
class _Ending:
    """How the controller came to its end."""

    error: Exception | None = None


class _Server(uvicorn.Server):
    """A server that says when it can be reached, and leaves signals alone."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(settings: Settings, ready: Callable[[str], None]) -> None:
    """Be the controller of a home, until somebody ends it.

    A shutdown by the API ends the jobs as well; SIGTERM and SIGINT end the controller alone.

    Args:
        settings: as of the command line.
        ready: called with the URL once the API answers.

    Raises:
        InputError: another one is the controller, or the port is in use.
        StavesError: as of the service.
    """
    folder = ServiceFolder(settings.home)
    folder.create()
    lock = folder.lock()
    earlier = folder.address()  # that of a controller which has died
    try:
        folder.forget_address()
        with _listen(settings.port) as listener:
            service = _build(settings)
            earlier = None  # taken over
            try:
                _keep_token(folder, service)
                service.start()
                _run(folder, service, listener, ready)
            finally:
                service.close()
    finally:
        folder.forget_address()
        if earlier is not None:  # its jobs may run on: it is still to be taken over
            folder.tell_address(*earlier)
        os.close(lock)


def _run(
    folder: ServiceFolder,
    service: Service,
    listener: socket.socket,
    ready: Callable[[str], None],
) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    ending = _Ending()

    def shut_down() -> None:
        try:
            service.shutdown()
        except Exception as error:  # raised again where the process ends
            ending.error = error
        server.should_exit = True

    def tell() -> None:
        folder.tell_address(url)
        ready(url)

    app = create_app(
        service, scratch=_scratch(folder), end=lambda: threading.Thread(target=shut_down).start()
    )
    server = _Server(
        uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=_LETTING_GO,
        ),
        tell,
    )

    def end(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run([listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if ending.error is not None:
        raise ending.error


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port), backlog=128)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            what = "is in use" if error.errno == errno.EADDRINUSE else "is not for this user"
            raise InputError(
                f"--port: {port} {what}", hint="name another one, or none to get a free one"
            ) from None
        raise


def _build(settings: Settings) -> Service:
    os.environ[MARK] = str(settings.home)  # all that the service starts inherits it
    module, _, name = settings.controller.partition(":")
    build = getattr(importlib.import_module(module), name)
    of = settings
    built = build(of.home, of.cluster, of.engine, of.policy, of.options, quotas=of.quotas)
    return cast("Service", built)


def _scratch(folder: ServiceFolder) -> Path:
    """Return an empty folder for uploads: what a killed controller left is no use to anybody."""
    scratch = folder.path / "uploads"
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(scratch)
    scratch.mkdir(mode=0o700)
    return scratch


def _keep_token(folder: ServiceFolder, service: Service) -> None:
    """Have a token of an administrator in the folder that the service knows."""
    token = folder.token()
    if not token or service.caller(token) is None:
        folder.keep_token(service.add_token(_user(), "admin"))


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container, a number may have no name
        return str(os.getuid())
