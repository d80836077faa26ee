"""What of a cluster's nodes matters to how devices share gradients."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from staves.hardware._cluster import Cluster, Node
from staves.hardware._configuration import Configuration
from staves.hardware._links import Link, pair_of, worst

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Layout:
    """Which devices a node has together, and over which links they meet those of other nodes.

    Args:
        shapes: the devices of nodes, each once.
        links: by the names of two types, the lesser one first, what a ring over all nodes with one
            of them is like where it leaves these; nothing of types without any known link.
    """

    shapes: tuple[Configuration, ...]
    links: tuple[tuple[Pair, Link], ...] = field(default=())

    @classmethod
    def of(cls, cluster: Cluster) -> Layout:
        """Return the layout of a cluster. One that was asked for lately is not computed again."""
        return _layout_of(cluster)

    def link(self, types: Collection[str]) -> Link | None:
        """Return what to expect between nodes of a ring over devices of these types.

        Which nodes these will be is not known: it is the worst of them all (`Cluster.slowest_link`
        of those that have one of the types). None where nothing is known.
        """
        wanted = set(types)
        return worst(link for pair, link in self.links if wanted.issuperset(pair))


@lru_cache(maxsize=16)
def _layout_of(cluster: Cluster) -> Layout:
    found: dict[Pair, Link] = {}
    for pair, link in _known_links(cluster):
        found[pair] = worst([link, found.get(pair)]) or link
    shapes = dict.fromkeys(node.configuration for node in cluster.nodes)
    return Layout(tuple(shapes), tuple(found.items()))


def _known_links(cluster: Cluster) -> Iterator[tuple[Pair, Link]]:
    """Yield links by the types at their ends.

    Declared ones once for all nodes that are alike: there may be thousands. O(measured pairs +
    kinds of nodes squared).
    """
    alike: dict[tuple[tuple[str, ...], float | None], list[Node]] = {}
    for node in cluster.nodes:
        alike.setdefault((tuple(node.devices), node.link_bits_per_second), []).append(node)
    kind_of = {node.name: kind for kind, nodes in enumerate(alike.values()) for node in nodes}
    by_name = {node.name: node for node in cluster.nodes}
    measured = Counter[tuple[int, ...]]()
    for pair, link in cluster.links.items():
        one, other = (by_name[name] for name in pair)
        measured[tuple(sorted(kind_of[name] for name in pair))] += 1
        yield from _by_types(one, other, cluster.expected(one, other, link))
    kinds = list(alike.values())
    for a, b in itertools.combinations_with_replacement(range(len(kinds)), 2):
        count = len(kinds[a]) * len(kinds[b]) if a != b else math.comb(len(kinds[a]), 2)
        if measured[a, b] < count:
            one, other = kinds[a][0], kinds[b][0]
            yield from _by_types(one, other, cluster.expected(one, other, None))


def _by_types(one: Node, other: Node, link: Link | None) -> Iterator[tuple[Pair, Link]]:
    if link is not None:
        for pair in itertools.product(one.devices, other.devices):
            yield pair_of(*pair), link
