"""`staves status`: whether the service runs, and how it is."""

from __future__ import annotations

import os
from typing import Any

import typer

from staves.cli._output import print_json
from staves.cli._service import AsJson, cell, client, service_packages
from staves.engines.local import staves_home
from staves.errors import StavesError


def status(as_json: AsJson = False) -> None:
    """Say whether the service runs, where, and how it is; exit code 1 where it is not well."""
    with service_packages():
        from staves.service import ServiceFolder
    folder = ServiceFolder(staves_home())
    address, url = folder.address(), os.environ.get("STAVES_URL")
    document: dict[str, Any] = {
        "state": "up" if url else folder.state,
        "url": url or (address[0] if address else None),
        "pid": None if url else folder.pid,
        "data_dir": str(folder.home),
        "health": None,
    }
    failure: StavesError | None = None
    try:
        with client(patience=0.0, timeout=5.0) as service:
            document["health"] = service.health()
        if not document["health"]["ok"]:
            failure = StavesError(
                f"the service is not well: {document['health']['wrong']}",
                hint=f"its log: {folder.log_file}",
            )
    except StavesError as error:
        failure = error
    if as_json:
        print_json(document)
    else:
        for name, value in {**document, **(document["health"] or {})}.items():
            if name != "health" and value not in (None, {}):
                typer.echo(f"staves: {name}: {cell(value)}")
    if failure is not None:
        raise failure
