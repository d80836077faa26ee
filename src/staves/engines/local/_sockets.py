"""Sockets that listen on one address of this machine, of either family."""

from __future__ import annotations

import socket

from staves.errors import StavesError


def listening(host: str, port: int = 0) -> socket.socket:
    """Return a socket that listens on that address; port 0 is any free one.

    Raises:
        StavesError: this machine has no such address, or the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise StavesError(
            f"{host}: {error.strerror or error}",
            hint="name an interface or an address of this machine: STAVES_INTERFACE",
        ) from None
