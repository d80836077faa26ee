"""The process groups of one generation: one for gradients, one for control."""

from __future__ import annotations

import atexit
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from staves.training._environment import Environment

TIMEOUT = timedelta(minutes=10)
"""How long a collective may wait for a rank before it fails by itself."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Gradients go over NCCL where there are GPUs and gloo elsewhere; control always over gloo."""

    gradients: dist.ProcessGroup
    control: dist.ProcessGroup

    def gather(self, value: Any, world_size: int, rank: int) -> list[Any] | None:
        """Collect one object of every rank at rank 0, in rank order; None elsewhere."""
        values: list[Any] | None = [None] * world_size if rank == 0 else None
        dist.gather_object(value, values, dst=0, group=self.control)
        return values

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's object on every rank."""
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.control, device=torch.device("cpu"))
        return box[0]

    def sum(self, *values: float) -> list[float]:
        """Return the sums of the values over all ranks."""
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, group=self.control)
        return [float(v) for v in tensor]


def form(environment: Environment, device: torch.device) -> Groups | None:
    """Join the groups of this generation; None where the process is alone."""
    if environment.world_size == 1:
        return None
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if not dist.is_initialized():
        if environment.store is None:  # torchrun's own variables say where to meet
            dist.init_process_group(backend, timeout=TIMEOUT)
        else:
            host, port = environment.store
            store = TCPStore(host, port, is_master=False, timeout=TIMEOUT)
            dist.init_process_group(
                backend,
                store=PrefixStore(f"generation-{environment.generation}", store),
                rank=environment.rank,
                world_size=environment.world_size,
                timeout=TIMEOUT,
            )
        atexit.register(_leave)
    world = dist.group.WORLD
    assert world is not None
    if device.type != "cuda":
        return Groups(world, world)
    control = dist.new_group(backend="gloo", timeout=TIMEOUT)
    assert isinstance(control, dist.ProcessGroup)
    return Groups(world, control)


def _leave() -> None:
    """Leave the groups before the interpreter goes: torch aborts otherwise."""
    if dist.is_initialized():
        dist.destroy_process_group()
