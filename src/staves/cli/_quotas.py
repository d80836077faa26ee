"""Quotas of tenants on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from staves.errors import InputError, quoted

_DIGITS = 9

Quotas = Annotated[
    list[str] | None,
    typer.Option(
        "--quota",
        metavar="TENANT=N",
        help="Devices that a tenant's jobs may have together; may be given repeatedly.",
    ),
]


def parse_quotas(entries: Sequence[str] | None) -> dict[str, int]:
    """Return `ann=8` as {"ann": 8}: a tenant's name, and devices of all types together.

    Raises:
        InputError: one is not of that form, or a tenant has two.
    """
    quotas: dict[str, int] = {}
    for entry in entries or ():
        tenant, equals, count = entry.rpartition("=")
        if not (equals and tenant and count.isascii() and count.isdecimal()):
            raise InputError(
                f"--quota: {quoted(entry)} is not TENANT=N", hint="like ann=8; 0 for none at all"
            )
        if tenant in quotas:
            raise InputError(f"--quota: {quoted(tenant)} has two", hint="give it once")
        if len(count.lstrip("0")) > _DIGITS:  # Python refuses to read the very longest
            raise InputError(
                f"--quota: {quoted(entry)}: too many devices", hint="leave the tenant out for all"
            )
        quotas[tenant] = int(count)
    return quotas
