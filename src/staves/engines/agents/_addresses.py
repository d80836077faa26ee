"""Addresses of this machine: which one others should use, of either family."""

from __future__ import annotations

import ipaddress
import socket

import psutil

from staves.errors import InputError

_ELSEWHERE = (("192.0.2.1", socket.AF_INET), ("2001:db8::1", socket.AF_INET6))
"""Addresses that nobody has (RFC 5737, RFC 3849); nothing is sent to them."""


def own_address() -> str:
    """Return the address from which this machine reaches others; loopback where it has no route."""
    for host, family in _ELSEWHERE:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((host, 9))
            except OSError:
                continue
            found: str = probe.getsockname()[0]
            return found
    return "127.0.0.1"


def address_on(interface: str) -> str:
    """Return this machine's address that is meant.

    Args:
        interface: the name of an interface, an address, or a network such as `10.0.0.0/8`; or
            several of these with commas, of which the first that this machine has counts: names
            differ from node to node. A name's IPv4 address is taken before its IPv6 ones, and
            none that is only valid on one link.

    Raises:
        InputError: it has none of them.
    """
    found = _addresses()
    for word in filter(None, (part.strip() for part in interface.split(","))):
        try:
            network = ipaddress.ip_network(word, strict=False)
        except ValueError:
            fitting = [address for name, address in found if name == word]
        else:
            fitting = [address for _, address in found if _of(address) in network]
        if fitting:
            return min(fitting, key=lambda address: ":" in address)
    names = ", ".join(sorted({name for name, _ in found}))
    raise InputError(
        f"{interface}: this machine has no such interface, address or network",
        hint=f"interfaces: {names}",
    )


def interface_of(address: str) -> str | None:
    """Return the name of the interface that has the address; None where none has."""
    return next((name for name, own in _addresses() if _of(own) == _of(address)), None)


def join(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(address: str) -> tuple[str, int]:
    """Return host and port of what `join` wrote.

    Raises:
        InputError: it is not of that form.
    """
    host, _, port = address.rpartition(":")
    bare = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not host or bare or not port.isdigit():
        raise InputError(f"{address!r} is no address", hint="HOST:PORT or [HOST]:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _addresses() -> list[tuple[str, str]]:
    """Return (interface, address) of all that others can reach, or that are loopback."""
    return [
        (name, entry.address)
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family in (socket.AF_INET, socket.AF_INET6) and "%" not in entry.address
    ]


def _of(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(address)
