"""From what a cluster tells of its nodes, and what a file declares beside that, to a `Cluster`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from staves.hardware import KNOWN_TYPES, Cluster, DeviceType, Node


def cluster_with(found: Iterable[tuple[str, Mapping[str, int]]], file: Cluster | None) -> Cluster:
    """Return the cluster of these nodes.

    Args:
        found: for each node its name and its devices by type; nodes without any are left out.
        file: declares types, and links of nodes by their name or else by the slowest of their
            types; None for none.
    """
    declared = {} if file is None else file.types
    of_nodes = {} if file is None else {node.name: node.link_bits_per_second for node in file.nodes}
    of_types = {} if file is None else _slowest_by_type(file)
    nodes, types = list[Node](), dict[str, DeviceType]()
    for name, devices in found:
        if not devices:
            continue
        for kind in devices:
            types[kind] = declared.get(kind) or KNOWN_TYPES.get(kind) or DeviceType(kind)
        slowest = min((of_types[kind] for kind in devices if kind in of_types), default=None)
        nodes.append(Node(name, dict(devices), of_nodes.get(name) or slowest))
    return Cluster(types, tuple(nodes))


def _slowest_by_type(file: Cluster) -> dict[str, float]:
    """Return the slowest link declared of a node with each type; nothing of types without any."""
    found: dict[str, float] = {}
    for node in file.nodes:
        if node.link_bits_per_second is not None:
            for name in node.devices:
                found[name] = min(found.get(name, math.inf), node.link_bits_per_second)
    return found
