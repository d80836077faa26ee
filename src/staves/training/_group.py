"""The process group of one generation.

Under a supervisor a group can lose a member at any moment, and a collective of it may then never
end (a dead peer frees only its neighbours in the ring). So gloo groups are built by hand: the
blocking rendezvous runs in a thread that can be left behind, and a broken group is parked, never
waited for. Elsewhere (torchrun) torch's own initialisation is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch._C._distributed_c10d import PrefixStore, ProcessGroup, ProcessGroupGloo, Store
from torch.distributed.distributed_c10d import GroupName

from staves.training._interrupt import Interrupted, run_interruptibly

TIMEOUT = timedelta(minutes=30)
"""How long a collective may wait for a rank before it fails by itself; supervisors know sooner."""

_parked: list[Any] = []
_retired: list[Any] = []


def park(*objects: Any) -> None:
    """Keep what a broken generation left behind: destroying it would wait for dead peers."""
    _parked.extend(objects)


def destroy_retired() -> None:
    """Destroy the whole groups of earlier generations.

    Not when they are left: a thread of the group may still be finishing a callback, and would then
    be the one to destroy the group, and with it itself.
    """
    _retired.clear()


def has_parked() -> bool:
    """Whether something is parked: the process must then end without torch's own clean-up."""
    return bool(_parked)


def end_process(status: int) -> None:
    """End this process now, without torch's clean-up, which parked groups would make abort."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def destroy() -> None:
    """Leave the launcher's group as torch wants it."""
    if dist.is_initialized():
        dist.destroy_process_group()


def join_by_environment(device: torch.device) -> Store:
    """Join the group that the launcher's variables describe (torchrun); return its store."""
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=TIMEOUT)
    store: Store = c10d._get_default_store()
    return store


def form(
    store: Store,
    *,
    generation: int,
    rank: int,
    world_size: int,
    device: torch.device,
    interrupted: Callable[[], bool],
) -> dist.ProcessGroup:
    """Form the group of a generation and make it torch's default one.

    Raises:
        Interrupted: the generation broke before all its members had met; nothing is left to undo.
    """
    if dist.is_initialized():
        world = dist.group.WORLD  # the launcher's own group, for good
        assert world is not None
        return world
    own = PrefixStore(f"group-{generation}", store)
    if device.type == "cuda":  # written with care, unproven: NCCL has an abort of its own
        dist.init_process_group(
            "cpu:gloo,cuda:nccl", store=own, rank=rank, world_size=world_size, timeout=TIMEOUT
        )
        world = dist.group.WORLD
        assert world is not None
        return world
    met: list[ProcessGroupGloo] = []
    try:
        run_interruptibly(lambda: met.append(_gloo(own, rank, world_size)), interrupted)
    except Interrupted:
        park(met)
        raise
    group = ProcessGroup(own, rank, world_size)
    group._set_default_backend(ProcessGroup.BackendType.GLOO)
    group._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, met[0])
    _make_default(group, own, generation, world_size)
    return group


def leave(*, broken: bool = False) -> None:
    """Let go of the default group; a broken one is parked."""
    group = c10d._get_default_group() if dist.is_initialized() else None
    if group is None:
        return
    destroy_retired()  # those before this one; see there
    (_parked if broken else _retired).append(group)
    world = c10d._world
    for table in (
        world.pg_map,
        world.pg_names,
        world.pg_group_ranks,
        world.pg_backend_config,
        world.pg_to_tag,
    ):
        table.pop(group, None)
    c10d._unregister_process_group(group.group_name)  # type: ignore[attr-defined]
    c10d._update_default_pg(None)


def _gloo(store: Store, rank: int, world_size: int) -> ProcessGroupGloo:
    options = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._timeout = TIMEOUT
    options._threads = 2
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    address = os.environ.get("STAVES_ADDRESS", "")
    if interface:
        device = ProcessGroupGloo.create_device(interface=interface)
    elif address:  # this node's own, by which the others reach it
        device = ProcessGroupGloo.create_device(hostname=address)
    else:
        device = ProcessGroupGloo.create_default_device()
    options._devices = [device]
    return ProcessGroupGloo(store, rank, world_size, options)


def _make_default(group: dist.ProcessGroup, store: Store, generation: int, world_size: int) -> None:
    """Enter the group in torch's tables, as its own initialisation does."""
    name = GroupName(f"staves-{generation}")
    group._set_group_name(name)
    group._set_group_desc("staves")
    world = c10d._world
    world.pg_map[group] = ("gloo", store)
    world.pg_names[group] = name
    world.pg_group_ranks[group] = {rank: rank for rank in range(world_size)}
    world.pg_backend_config[group] = "cpu:gloo"
    world.pg_to_tag[group] = f"ptd:{name}"
    c10d._register_process_group(name, group)  # type: ignore[attr-defined]
    c10d._update_default_pg(group)
