"""How a supervisor knows on which nodes its attempt runs: a file in the attempt's folder."""

from __future__ import annotations

import importlib
from typing import Any

from staves.engines.agents._hosts import AgentHosts
from staves.engines.agents._nodes import Nodes
from staves.engines.local._hosts import Hosts, Supervision
from staves.errors import StavesError

NODES_FILE = "nodes.json"
"""In the folder of an attempt; one without it runs on this machine."""


def document_of(nodes: Nodes, interface: str | None) -> dict[str, Any]:
    """Return what stands in the file."""
    kind = type(nodes)
    return {
        "nodes": f"{kind.__module__}:{kind.__qualname__}",
        "options": dict(nodes.options()),
        "interface": interface,
    }


def hosts_of(document: dict[str, Any], name: str, supervision: Supervision) -> Hosts:
    """Make the hosts of an attempt as its file says; `name`: what agents are named after.

    Raises:
        StavesError: the kind of cluster is not installed, or does not answer.
        InputError: this machine lacks the interface.
    """
    module, _, kind = document["nodes"].partition(":")
    try:
        made = getattr(importlib.import_module(module), kind)
    except (ImportError, AttributeError) as error:
        raise StavesError(f"{document['nodes']}: {error}") from None
    nodes: Nodes = made(**document["options"])
    return AgentHosts(supervision, nodes, name=name, interface=document["interface"])
