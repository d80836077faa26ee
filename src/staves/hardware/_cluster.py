"""Devices, the nodes they sit in, and the cluster of all nodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from staves.documents import suggestion
from staves.errors import InputError, quoted
from staves.hardware._configuration import Configuration
from staves.hardware._links import Link, pair_of, worst
from staves.hardware._types import DeviceType, check_name


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a cluster.

    Args:
        name: unique in the cluster: node, type and index, `node-0/a100-0`.
        type: its type.
        node: the name of its node.
        index: its number among the devices of its type in its node, from 0.
        link_bits_per_second: speed of its node's network link; None where it is not declared.
    """

    name: str
    type: DeviceType
    node: str
    index: int
    link_bits_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A machine: how many devices of which type, in the order in which they become ranks.

    Args:
        name: unique in the cluster.
        devices: counts, all above zero, by name of the type. The order counts.
        link_bits_per_second: speed of the node's network link; None where it is not declared.

    Raises:
        InputError: a name is not one, a count is below 1, or the link is not a speed above zero.
    """

    name: str
    devices: Mapping[str, int] = field(hash=False)
    link_bits_per_second: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "node")
        object.__setattr__(self, "devices", dict(self.devices))
        for name, count in self.devices.items():
            if count < 1:
                raise InputError(f"{self.name}: {count} devices of {name}: must be at least 1")
        link = self.link_bits_per_second
        if link is not None and not (math.isfinite(link) and link > 0):
            raise InputError(f"{self.name}: link {link!r} must be finite and above zero")

    @property
    def configuration(self) -> Configuration:
        """The node's devices by type."""
        return Configuration(self.devices)


@dataclass(frozen=True, slots=True)
class Cluster:
    """All nodes, and the types of their devices.

    Args:
        types: every type that a node uses, by name; may hold more.
        nodes: the nodes; their order is the order of the devices.
        warnings: what the reader of the cluster should tell its user, one line each. Two clusters
            that differ only in these are equal.
        links: as measured, by the names of two nodes, the lesser one first; of nodes that there
            are. They only tell what to expect: emulated devices are held to declared links alone.

    Raises:
        InputError: a node's name stands twice, or a node uses a type that is not in `types`.
    """

    types: Mapping[str, DeviceType] = field(hash=False)
    nodes: tuple[Node, ...]
    warnings: tuple[str, ...] = field(default=(), compare=False)
    links: Mapping[tuple[str, str], Link] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", dict(self.types))
        object.__setattr__(self, "nodes", tuple(self.nodes))
        object.__setattr__(self, "links", dict(self.links))
        for key, device_type in self.types.items():
            if key != device_type.name:
                raise InputError(
                    f"the type {quoted(device_type.name)} stands under the name {quoted(key)}"
                )
        names: set[str] = set()
        for node in self.nodes:
            if node.name in names:
                raise InputError(f"the node {quoted(node.name)} stands twice")
            names.add(node.name)
            for name in node.devices:
                if name not in self.types:
                    raise InputError(
                        f"{node.name}: unknown device type {quoted(name)}",
                        hint=suggestion(name, self.types),
                    )

    def devices(self) -> tuple[Device, ...]:
        """Return every device: by node, then in the node's order of types, then by index."""
        return tuple(
            Device(
                f"{node.name}/{name}-{index}",
                self.types[name],
                node.name,
                index,
                node.link_bits_per_second,
            )
            for node in self.nodes
            for name, count in node.devices.items()
            for index in range(count)
        )

    @property
    def configuration(self) -> Configuration:
        """All devices of the cluster, by type."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            for name, count in node.devices.items():
                counts[name] = counts.get(name, 0) + count
        return Configuration(counts)

    @property
    def total(self) -> int:
        """The number of devices."""
        return sum(sum(node.devices.values()) for node in self.nodes)

    @property
    def emulated(self) -> bool:
        """Whether any device is emulated: then every figure must say so."""
        return any(self.types[name].emulated for node in self.nodes for name in node.devices)

    @property
    def fully_emulated(self) -> bool:
        """Whether there are devices and all of them are emulated."""
        used = {name for node in self.nodes for name in node.devices}
        return bool(used) and all(self.types[name].emulated for name in used)

    def node(self, name: str) -> Node:
        """Return the node `name`; InputError where there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise InputError(
            f"unknown node {quoted(name)}",
            hint=suggestion(name, [node.name for node in self.nodes]),
        )

    def with_links(self, links: Mapping[tuple[str, str], Link]) -> Cluster:
        """Return the cluster with these measured links, as far as it has their nodes."""
        names = {node.name for node in self.nodes}
        own = {pair: link for pair, link in links.items() if names.issuperset(pair)}
        return replace(self, links=own)

    def link_between(self, one: str, other: str) -> Link | None:
        """Return what to expect of the way from one node to another one; None: nothing is known.

        What was measured counts, else the slower of the links that the two declare. Where one has
        emulated devices their links are emulated, too: no faster than what is declared, whatever
        the wire can do.

        Raises:
            InputError: there is no such node.
        """
        return self.expected(self.node(one), self.node(other), self.links.get(pair_of(one, other)))

    def expected(self, one: Node, other: Node, measured: Link | None) -> Link | None:
        """Return what to expect between two nodes, of which that was measured; `link_between`."""
        speeds = [one.link_bits_per_second, other.link_bits_per_second]
        declared = worst(Link(speed) for speed in speeds if speed is not None)
        if measured is None or declared is None:
            return measured or declared
        emulated = any(self.types[name].emulated for end in (one, other) for name in end.devices)
        return worst([measured, declared]) if emulated else measured

    def slowest_link(self, nodes: Collection[str]) -> Link | None:
        """Return the link that a ring over these nodes is like, in whatever order it meets them.

        That is the lowest speed and the longest latency of all pairs; None where of none of them
        anything is known.

        Raises:
            InputError: there is no such node.
        """
        pairs = itertools.combinations(dict.fromkeys(nodes), 2)
        return worst(self.link_between(one, other) for one, other in pairs)
