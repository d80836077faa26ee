"""Nodes of a running service on which nothing runs, kept so for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from staves.cli._service import client


@contextlib.contextmanager
def held_nodes(warn: Callable[[str], None]) -> Iterator[list[str]]:
    """Drain the nodes of the service that have no job, give their names, and undrain them.

    A job that came onto one just before it was drained keeps it: the node is not among them.
    Who is ended by force meanwhile leaves them drained: `staves undrain` takes them back.

    Args:
        warn: told which nodes are left out, and why.
    """
    ours = set[str]()
    with client() as service, contextlib.ExitStack() as undo:
        for node in service.nodes():
            if node["state"] != "up":
                warn(f"{node['name']} is left out: it is {node['state']}")
            elif _jobs(node):
                warn(f"{node['name']} is left out: {', '.join(_jobs(node))} runs there")
            else:
                service.drain(node["name"], True)
                undo.callback(service.drain, node["name"], False)
                ours.add(node["name"])
        there = [node for node in service.nodes() if node["name"] in ours]
        yield [node["name"] for node in there if not _jobs(node)]


def _jobs(node: dict[str, Any]) -> list[str]:
    return sorted({device["job"] for device in node["devices"] if device["job"] is not None})
