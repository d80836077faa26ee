"""Which nodes and typed GPUs a Slurm cluster has that can be used now, by what `sinfo` prints.

Its plain format has been the same for many versions; the JSON one changes with each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from staves.engines.agents import cluster_with
from staves.errors import InputError
from staves.hardware import (
    KNOWN_TYPES,
    LOCAL_CPU,
    Cluster,
    DeviceType,
    device_type_from_name,
)

FORMAT = "%N|%T|%G"
"""Of `sinfo --Node --noheader`: name, state, generic resources."""

_USABLE = {"allocated", "completing", "idle", "mixed", "planned"}
_MARKS = "~#+"
"""Signs after a state that do no harm: powered off or just waking up, which Slurm sees to."""

_GPUS = re.compile(r"gpu(?::(?P<type>[^:(),]+))?:(?P<count>\d+)")


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node as Slurm has it.

    Args:
        name: its name.
        gres: counts by what is asked for: `gpu:a100`, or `gpu` where a GPU has no type.
    """

    name: str
    gres: Mapping[str, int]


def parse(text: str, *, reserved: bool = False) -> list[SlurmNode]:
    """Return the nodes in `FORMAT` that can be used: each once, in their order.

    Nodes that are down, drained, in maintenance, or do not answer are left out.

    Args:
        text: what `sinfo` printed; a node stands there once for each of its partitions.
        reserved: whether nodes in a reservation can be used: the jobs name it.
    """
    usable = _USABLE | {"reserved"} if reserved else _USABLE
    nodes: dict[str, SlurmNode] = {}
    for line in text.splitlines():
        name, state, gres = line.strip().split("|", 2)
        if state.rstrip(_MARKS) in usable and name not in nodes:
            nodes[name] = SlurmNode(name, gres_of(gres))
    return list(nodes.values())


def gres_of(text: str) -> dict[str, int]:
    """Return counts by what is asked for, `{"gpu:a100": 4}` for `gpu:a100:4(S:0-1),shard:8`."""
    counts: dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        if found := _GPUS.fullmatch(part.strip()):
            name = f"gpu:{found['type']}" if found["type"] else "gpu"
            counts[name] = counts.get(name, 0) + int(found["count"])
    return {name: count for name, count in counts.items() if count}


def type_name(gres: str, declared: Mapping[str, DeviceType]) -> str:
    """Return the device type that a generic resource means: `a100` for `gpu:nvidia_a100-sxm4-40gb`.

    Args:
        gres: as `gres_of` returns them.
        declared: types that a cluster file declares: their names win as they stand.
    """
    word = gres.removeprefix("gpu").removeprefix(":")
    return word if word in declared or word in KNOWN_TYPES else device_type_from_name(word)


def cluster_of(found: list[SlurmNode], file: Cluster | None) -> Cluster:
    """Return the cluster: the GPUs that Slurm has, by node.

    Args:
        found: the nodes.
        file: declares types, and links of nodes by their name or by their types. Of a node that it
            names it also tells the `local-cpu` devices, which no generic resource stands for.
    """
    declared = {} if file is None else file.types
    cpus = {} if file is None else {n.name: n.devices.get(LOCAL_CPU, 0) for n in file.nodes}
    devices = []
    for node in found:
        counts: dict[str, int] = {}
        for gres, count in node.gres.items():
            name = type_name(gres, declared)
            counts[name] = counts.get(name, 0) + count
        if cpus.get(node.name):
            counts[LOCAL_CPU] = cpus[node.name]
        devices.append((node.name, counts))
    return cluster_with(devices, file)


def gres_for(
    node: SlurmNode, devices: Mapping[str, int], declared: Mapping[str, DeviceType]
) -> str:
    """Return the value of `--gres` that claims so many devices of a node; empty for CPUs alone.

    Raises:
        InputError: the node does not have them.
    """
    claims = []
    for wanted, count in devices.items():
        left = 0 if wanted == LOCAL_CPU else count
        for gres, there in node.gres.items():
            if left and type_name(gres, declared) == wanted:
                claims.append(f"{gres}:{min(left, there)}")
                left -= min(left, there)
        if left:
            raise InputError(f"{node.name} does not have {count} devices of {wanted}")
    return ",".join(claims)
