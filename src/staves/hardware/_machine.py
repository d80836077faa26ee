"""The devices of the machine this runs on."""

from __future__ import annotations

import importlib.util

from staves.hardware._cluster import Cluster, Node
from staves.hardware._gpu_names import device_type_from_name
from staves.hardware._known import LOCAL_CPU, known_type
from staves.hardware._types import DeviceType


def visible_gpus() -> tuple[DeviceType, ...]:
    """Return the type of every GPU that torch sees, in torch's order (`cuda:0` first).

    Memory is what the device itself reports. `CUDA_VISIBLE_DEVICES` counts, since torch heeds it.
    Empty without torch or without a GPU. Where GPUs of one name differ in memory by more than a
    tenth, the later ones carry their size in the name (`v100-32gb`).
    """
    if importlib.util.find_spec("torch") is None:
        return ()
    import torch

    if not torch.cuda.is_available():
        return ()
    found: list[tuple[str, int]] = []
    for ordinal in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(ordinal)
        found.append((properties.name, int(properties.total_memory)))
    return types_of(found)


def types_of(gpus: list[tuple[str, int]]) -> tuple[DeviceType, ...]:
    """Return the types of GPUs given as (product name, memory in bytes)."""
    types: dict[str, DeviceType] = {}
    result: list[DeviceType] = []
    for product, memory in gpus:
        name = device_type_from_name(product)
        first = types.get(name)
        if first is not None and not _alike(first.memory_bytes, memory):
            name = f"{name}-{round(memory / 2**30)}gb"
        result.append(types.setdefault(name, DeviceType(name, memory)))
    return tuple(result)


def _alike(one: int | None, other: int) -> bool:
    return one is not None and abs(one - other) <= 0.1 * max(one, other)


def this_machine() -> Cluster:
    """Return this machine as a cluster of one node: its GPUs, or else one `local-cpu` device.

    The k-th device of a type is the k-th GPU of that type in the order of `visible_gpus`. Looking
    for GPUs may start CUDA in this process.
    """
    gpus = visible_gpus() or (known_type(LOCAL_CPU),)
    counts: dict[str, int] = {}
    for gpu in gpus:
        counts[gpu.name] = counts.get(gpu.name, 0) + 1
    return Cluster({gpu.name: gpu for gpu in gpus}, (Node("node-0", counts),))
