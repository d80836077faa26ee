"""What of a cluster's nodes matters to how devices share gradients."""

from __future__ import annotations

from dataclasses import dataclass, field

from staves.hardware._cluster import Cluster
from staves.hardware._configuration import Configuration


@dataclass(frozen=True, slots=True)
class Layout:
    """Which devices a node has together, and over which links they meet those of other nodes.

    Args:
        shapes: the devices of nodes, each once.
        links: by name of a type, the slowest link that is declared of a node with it, in bits per
            second; nothing of types without any.
    """

    shapes: tuple[Configuration, ...]
    links: tuple[tuple[str, float], ...] = field(default=())

    @classmethod
    def of(cls, cluster: Cluster) -> Layout:
        """Return the layout of a cluster."""
        links: dict[str, float] = {}
        for node in cluster.nodes:
            if node.link_bits_per_second is not None:
                for name in node.devices:
                    links[name] = min(links.get(name, float("inf")), node.link_bits_per_second)
        shapes = dict.fromkeys(node.configuration for node in cluster.nodes)
        return cls(tuple(shapes), tuple(links.items()))
