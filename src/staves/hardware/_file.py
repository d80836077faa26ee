"""The cluster file: one YAML format for `run --devices`, `up`, `simulate` and the demo."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from staves.documents import (
    BitsPerSecond,
    Bytes,
    Document,
    Seconds,
    field_path,
    parse,
    read,
    suggestion,
)
from staves.errors import InputError, quoted
from staves.hardware._cluster import Cluster, Node
from staves.hardware._known import KNOWN_TYPES, LOCAL_CPU
from staves.hardware._types import LARGEST_BATCH, DeviceProfile, DeviceType, Pace, check_name

MOST_DEVICES = 1_000_000
"""In a cluster: a typing mistake should not eat the memory."""

_Count = Annotated[int, Field(ge=1)]
_Samples = Annotated[int, Field(le=LARGEST_BATCH)]


class PaceEntry(Document):
    """The time of one pass: max(floor, fixed + per_sample x local batch)."""

    fixed: Seconds
    per_sample: Seconds
    floor: Seconds = 0.0


class EmulationEntry(Document):
    """Declared compute times; they make the type an emulated one."""

    forward: PaceEntry = Field(description="data, forward pass and update")
    backward: PaceEntry = Field(description="backward pass")
    max_batch: _Samples | None = Field(None, ge=1, description="largest local batch, in samples")
    min_batch: _Samples = Field(0, ge=0, description="smallest local batch, in samples")


class TypeEntry(Document):
    """A device type; what it leaves out comes from the known type of that name."""

    memory: Bytes | None = Field(None, description="memory of one device")
    emulate: EmulationEntry | None = None


class NodeEntry(Document):
    """One node, or with `count` several that are alike and named name-0, name-1, ..."""

    name: str | None = Field(None, description="node-0, node-1, ... where it is left out")
    count: int | None = Field(None, ge=1, description="how many such nodes, 1 by default")
    devices: dict[str, _Count] = Field(description="how many devices of which type")
    link: BitsPerSecond | None = Field(None, description="speed of the network link")


class ClusterFile(Document):
    """A cluster: its nodes, and the device types that are not known or are emulated."""

    types: dict[str, TypeEntry] = Field({}, description="not needed for types that are known")
    nodes: list[NodeEntry]


def read_cluster(path: Path | str) -> Cluster:
    """Read the cluster file at `path`.

    Raises:
        InputError: as `staves.documents.read`; or a type is unknown, a node's name stands twice, an
            emulation has no time in it, or there are no devices at all.
    """
    return _build(read(path, ClusterFile), str(path))


def parse_cluster(text: str, source: str = "cluster") -> Cluster:
    """Return the cluster that the YAML `text` describes; `source` names it in errors.

    Raises:
        InputError: as `read_cluster`.
    """
    return _build(parse(text, ClusterFile, source=source), source)


def cluster_schema() -> dict[str, Any]:
    """Return the JSON Schema of the cluster file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ClusterFile.model_json_schema(),
        "title": "Staves cluster file",
    }


def to_document(cluster: Cluster) -> dict[str, Any]:
    """Return the mapping that, written as YAML or JSON, reads back as `cluster`.

    Keep the order of keys when writing (`sort_keys=False`): it is the order of the devices. The
    file cannot say that a known type's memory is unknown: that alone would read back as known.
    """
    document: dict[str, Any] = {}
    types = {
        name: _type_document(device_type)
        for name, device_type in cluster.types.items()
        if device_type != KNOWN_TYPES.get(name)
    }
    if types:
        document["types"] = types
    document["nodes"] = [
        {"name": node.name, "devices": dict(node.devices)}
        | (
            {}
            if node.link_bits_per_second is None
            else {"link": f"{node.link_bits_per_second!r}bit"}
        )
        for node in cluster.nodes
    ]
    return document


def _type_document(device_type: DeviceType) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if device_type.memory_bytes is not None:
        document["memory"] = f"{device_type.memory_bytes}B"
    if (profile := device_type.profile) is not None:
        document["emulate"] = {
            "forward": _pace_document(profile.forward),
            "backward": _pace_document(profile.backward),
        }
        if profile.max_batch is not None:
            document["emulate"]["max_batch"] = profile.max_batch
        if profile.min_batch:
            document["emulate"]["min_batch"] = profile.min_batch
    return document


def _pace_document(pace: Pace) -> dict[str, str]:
    document = {"fixed": f"{pace.fixed!r}s", "per_sample": f"{pace.per_sample!r}s"}
    return document | ({"floor": f"{pace.floor!r}s"} if pace.floor else {})


def _build(file: ClusterFile, source: str) -> Cluster:
    declared = {
        name: _device_type(name, entry, f"{source}: {field_path(('types', name))}")
        for name, entry in file.types.items()
    }
    types = dict(declared)
    total = 0
    for position, entry in enumerate(file.nodes):
        for name, count in entry.devices.items():
            if name not in types:
                if name not in KNOWN_TYPES:
                    raise InputError(
                        f"{source}: {field_path(('nodes', position, 'devices', name))}: "
                        "unknown device type",
                        hint=suggestion(name, {**KNOWN_TYPES, **declared})
                        + "; or declare it under types",
                    )
                types[name] = KNOWN_TYPES[name]
            total += count * (entry.count or 1)
    count = sum(entry.count or 1 for entry in file.nodes)
    for number, what in ((count, "nodes"), (total, "devices")):
        if number > MOST_DEVICES:
            raise InputError(
                f"{source}: nodes: {quoted(number)} {what} are more than {MOST_DEVICES}",
                hint="lower a count",
            )
    if not total:
        raise InputError(
            f"{source}: nodes: no devices", hint="add some under nodes: - devices: {a100: 1}"
        )
    nodes = tuple(_nodes(file, source))
    return Cluster(types, nodes, _warnings(types, nodes))


def _device_type(name: str, entry: TypeEntry, place: str) -> DeviceType:
    known = KNOWN_TYPES.get(name)
    memory = entry.memory if entry.memory is not None else known.memory_bytes if known else None
    if memory is not None and memory <= 0:
        raise InputError(f"{place}.memory: must be above zero", hint="leave it out if unknown")
    field = place
    try:
        check_name(name, "device type")
        field = f"{place}.emulate"
        return DeviceType(name, memory, _profile(entry.emulate) if entry.emulate else None)
    except InputError as error:
        raise InputError(f"{field}: {error.message}", hint=error.hint) from None


def _profile(entry: EmulationEntry) -> DeviceProfile:
    forward, backward = (
        Pace(pace.fixed, pace.per_sample, pace.floor) for pace in (entry.forward, entry.backward)
    )
    return DeviceProfile(forward, backward, entry.max_batch, entry.min_batch)


def _nodes(file: ClusterFile, source: str) -> Iterator[Node]:
    taken: set[str] = set()
    named = [list(_names(entry)) for entry in file.nodes]
    for position, names in enumerate(named):
        for name in names:
            if name in taken:
                raise InputError(
                    f"{source}: nodes[{position}].name: {quoted(name)} stands twice",
                    hint="give every node a name of its own",
                )
            taken.add(name)
    unused = (name for number in itertools.count() if (name := f"node-{number}") not in taken)
    for position, (entry, names) in enumerate(zip(file.nodes, named, strict=True)):
        if entry.name is None:
            names = [next(unused) for _ in range(entry.count or 1)]
        place = f"{source}: nodes[{position}]"
        if entry.link is not None and entry.link <= 0:
            raise InputError(f"{place}.link: must be above zero", hint="leave it out if unknown")
        for name in names:
            try:
                check_name(name, "node")
            except InputError as error:
                raise InputError(f"{place}.name: {error.message}", hint=error.hint) from None
            yield Node(name, entry.devices, entry.link)


def _names(entry: NodeEntry) -> list[str]:
    """Return the names that `entry` gives: none without `name`, numbered where `count` stands."""
    if entry.name is None:
        return []
    if entry.count is None:
        return [entry.name]
    return [f"{entry.name}-{number}" for number in range(entry.count)]


def _warnings(types: dict[str, DeviceType], nodes: tuple[Node, ...]) -> tuple[str, ...]:
    cpu = types.get(LOCAL_CPU)
    if cpu is None or cpu.emulated:
        return ()
    wanted = sum(node.devices.get(LOCAL_CPU, 0) for node in nodes)
    cores = len(os.sched_getaffinity(0))
    if wanted <= cores:
        return ()
    return (f"{wanted} {LOCAL_CPU} devices share {cores} cores: their speeds will vary",)
