"""`staves nodes`, `drain` and `undrain`: the cluster."""

from __future__ import annotations

from collections import Counter

import typer

from staves.cli._output import print_json
from staves.cli._service import AsJson, Node, client, print_table


def nodes(as_json: AsJson = False) -> None:
    """List the nodes, their devices and the jobs on them."""
    with client() as service:
        found = service.nodes()
    if as_json:
        print_json({"nodes": found})
        return
    rows = []
    for node in found:
        kinds = Counter(
            device["type"] + (" (emulated)" if device["emulated"] else "")
            for device in node["devices"]
        )
        taken = [device["job"] for device in node["devices"] if device["job"] is not None]
        free = len(node["devices"]) - len(taken)
        rows.append(
            (
                node["name"],
                node["state"],
                dict(kinds),
                free,
                sorted(set(taken), key=lambda job: (len(job), job)),
            )
        )
    print_table(("node", "state", "devices", "free", "jobs"), rows)


def drain(node: Node, as_json: AsJson = False) -> None:
    """Take a node out of use; its jobs are moved away."""
    _drain(node, True, as_json)


def undrain(node: Node, as_json: AsJson = False) -> None:
    """Take a node back into use."""
    _drain(node, False, as_json)


def _drain(node: str, on: bool, as_json: bool) -> None:
    with client() as service:
        document = service.drain(node, on)
    if as_json:
        print_json(document)
    else:
        typer.echo(f"staves: {document['name']} is {document['state']}")
