"""What the nodes of a Ray cluster have, in terms of device types: pure functions.

A node's device types are told by its resources: `GPU`, whose type is in the node's labels, and
resources that are named as a type is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from staves.engines.agents import cluster_with
from staves.errors import InputError
from staves.hardware import (
    KNOWN_TYPES,
    LOCAL_CPU,
    Cluster,
    DeviceType,
    device_type_from_name,
)

GPU_TYPE = "staves.io/gpu-type"
"""The label of a node that says of which type its GPUs are, where Ray's own does not."""
_RAYS_LABEL = "ray.io/accelerator-type"
_RAYS_RESOURCE = "accelerator_type:"  # before there were labels
_SHORT = 6  # digits of a node's id, where its host's name is not enough


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node as Ray tells it.

    Args:
        id: Ray's own, in hexadecimal; new at each start.
        host: the host's name.
        label: the name that it was started with; empty without one.
        resources: all that it has, by name.
        labels: its labels.
    """

    id: str
    host: str
    label: str
    resources: Mapping[str, float]
    labels: Mapping[str, str]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> RayNode:
        """Return the node that an entry of `ray.nodes()` is about."""
        given = told.get("NodeName") or ""
        label = "" if given == told["NodeManagerAddress"] else given
        labels = told.get("Labels") or {}
        host = told.get("NodeManagerHostname") or told["NodeManagerAddress"]
        return cls(told["NodeID"], host, label, dict(told["Resources"]), dict(labels))


@dataclass(frozen=True, slots=True)
class Offer:
    """Devices of one type on a node: how many, and what one of them claims of Ray."""

    count: int
    claim: Mapping[str, float]


def offers(node: RayNode, declared: Mapping[str, DeviceType]) -> dict[str, Offer]:
    """Return the devices of a node by type, in order of the types' names.

    Args:
        node: the node.
        declared: types beside those that are known, by name.
    """
    gpus = int(node.resources.get("GPU", 0))
    named = {
        name: int(count)
        for name, count in node.resources.items()
        if (name in declared or name in KNOWN_TYPES) and int(count) > 0
    }
    real = [name for name in named if not _plays(name, declared)] if gpus else []
    found = {
        name: Offer(min(count, gpus), {"GPU": 1.0, name: 1.0})
        if name in real
        else Offer(count, {name: 1.0})
        for name, count in named.items()
    }
    if gpus and not real:
        found[_gpu_type(node, declared)] = Offer(gpus, {"GPU": 1.0})
    return dict(sorted(found.items()))


def _plays(name: str, declared: Mapping[str, DeviceType]) -> bool:
    """Say whether devices of that type need no GPU."""
    return name == LOCAL_CPU or (name in declared and declared[name].emulated)


def _gpu_type(node: RayNode, declared: Mapping[str, DeviceType]) -> str:
    product = node.labels.get(GPU_TYPE) or node.labels.get(_RAYS_LABEL)
    if product is None:
        mine = (name for name in node.resources if name.startswith(_RAYS_RESOURCE))
        product = next(mine, "").removeprefix(_RAYS_RESOURCE)
    return product if product in declared else device_type_from_name(product)


def names(nodes: Collection[RayNode], before: Mapping[str, str]) -> dict[str, str]:
    """Return a name for each node, by its id.

    It is what the node was started as (`ray start --node-name`), or else its host's name; with some
    digits of its id where several would be called the same.

    Args:
        nodes: those that are alive.
        before: names that nodes had: they keep them.
    """
    found = {node.id: before[node.id] for node in nodes if node.id in before}
    wanted = {node.id: _plain(node) for node in nodes}
    taken = set(found.values())
    plain = list(wanted.values())
    for key in sorted(wanted.keys() - found.keys()):
        name = wanted[key]
        digits = _SHORT
        while name in taken or plain.count(name) > 1:
            name, digits = f"{wanted[key]}-{key[:digits]}", digits + 1
        taken.add(name)
        found[key] = name
    return found


def _plain(node: RayNode) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", node.label or node.host).lstrip("._-")
    return name or f"node-{node.id[:_SHORT]}"


def cluster_of(
    nodes: Iterable[RayNode], known_as: Mapping[str, str], file: Cluster | None
) -> Cluster:
    """Return the cluster.

    Args:
        nodes: those that are alive.
        known_as: their names, by id.
        file: declares types, and links of nodes by their name or by their types; None for none.
    """
    declared = {} if file is None else file.types
    found = [
        (known_as[node.id], {name: offer.count for name, offer in offers(node, declared).items()})
        for node in nodes
    ]
    return cluster_with(sorted(found, key=lambda one: _in_order(one[0])), file)


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return what sorts `node-10` after `node-9`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def claim_of(
    node: RayNode, kinds: Iterable[str], declared: Mapping[str, DeviceType]
) -> dict[str, float]:
    """Return what an agent claims of Ray that holds devices of these types, all of one node.

    Raises:
        InputError: the node has no such type, or not any more.
    """
    there, total = offers(node, declared), dict[str, float]()
    for kind in kinds:
        if kind not in there:
            has = ", ".join(there) or "no devices"
            raise InputError(f"no {kind} is there any more", hint=f"it has {has}")
        for name, amount in there[kind].claim.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def why_pending(
    claim: Mapping[str, float],
    has: Mapping[str, float] | None,
    free: Mapping[str, float],
    own: Mapping[str, float],
) -> str:
    """Return why an actor with this claim on a node has not started yet.

    Args:
        claim: what it asks for, by name.
        has: what the node has in all; None where it is not alive.
        free: what of that nobody holds.
        own: what this driver's actors on the node claim, this one among them: Ray counts a claim
            as held before its actor is there.
    """
    if has is None:
        return "the node is not in the Ray cluster any more"
    for name, amount in claim.items():
        there = has.get(name, 0.0)
        if not there:
            return f"the node has no {name} any more"
        if there < amount:
            return f"{amount:g} {name} are wanted, the node has {there:g}"
    for name, amount in claim.items():
        there, left = has[name], free.get(name, 0.0)
        if left < amount:
            others = "another user of the Ray cluster holds them, or another job until it ends"
            if there - left <= own.get(name, 0.0):
                others = f"Ray is starting its actor; or {others}"
            return f"{amount:g} {name} wanted, {left:g} of {there:g} free: {others}"
    return "Ray is starting its actor"
