"""The service: jobs on a cluster, scheduled; its store, its controller, its API and its client.

Names load with their first use: a command that asks the service something loads no database, and
one that asks nothing loads no HTTP client.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from staves.service._client import Client
    from staves.service._daemon import about, up
    from staves.service._down import down
    from staves.service._engines import build_engine
    from staves.service._facade import (
        Caller,
        Document,
        Refused,
        Sample,
        Service,
        UnknownName,
    )
    from staves.service._folder import ServiceFolder
    from staves.service._job_file import JobFile, job_schema, read_job
    from staves.service._rehearsal import Arrival, Rehearsal, rehearse
    from staves.service._serve import serve
    from staves.service._settings import Settings
    from staves.service._snapshot import Snapshot, pack_job
    from staves.service._spec import JobSpec
    from staves.service._store import Store

_LAZY = {
    "Arrival": "_rehearsal",
    "Caller": "_facade",
    "Client": "_client",
    "Document": "_facade",
    "JobFile": "_job_file",
    "JobSpec": "_spec",
    "Refused": "_facade",
    "Rehearsal": "_rehearsal",
    "Sample": "_facade",
    "Service": "_facade",
    "ServiceFolder": "_folder",
    "Settings": "_settings",
    "Snapshot": "_snapshot",
    "Store": "_store",
    "UnknownName": "_facade",
    "about": "_daemon",
    "build_engine": "_engines",
    "down": "_down",
    "job_schema": "_job_file",
    "pack_job": "_snapshot",
    "read_job": "_job_file",
    "rehearse": "_rehearsal",
    "serve": "_serve",
    "up": "_daemon",
}

__all__ = [
    "Arrival",
    "Caller",
    "Client",
    "Document",
    "JobFile",
    "JobSpec",
    "Refused",
    "Rehearsal",
    "Sample",
    "Service",
    "ServiceFolder",
    "Settings",
    "Snapshot",
    "Store",
    "UnknownName",
    "about",
    "build_engine",
    "down",
    "job_schema",
    "pack_job",
    "read_job",
    "rehearse",
    "serve",
    "up",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"staves.service.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'staves.service' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
