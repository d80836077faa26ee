"""Models that `fully_shard` (FSDP2) has spread over the ranks: what they need, and their state.

FSDP2 takes the mean of the ranks' gradients, so a rank's loss counts n b_i / B for its b_i samples
of a batch of B on n ranks. States are taken as a whole, in the form of a model that is not sharded:
they load at any number of ranks, and into a model that each rank holds whole.

Loaded only where a script asks for a mesh: torch's part of it takes a second.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import HashStore
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves

from staves.errors import InputError, TrainingError
from staves.training import _group
from staves.training._crew import Generation
from staves.training._interrupt import Interrupted

_HINT = "for layer in model.layers: fully_shard(layer, mesh=mesh); fully_shard(model, mesh=mesh)"


class Sharding:
    """How this run's model is spread: over all ranks, for good.

    Args:
        mesh: all ranks, in one dimension.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        self.mesh = mesh

    @property
    def ranks(self) -> int:
        """How many ranks the gradients are averaged over."""
        return int(self.mesh.size())

    def check_model(self, module: nn.Module) -> None:
        """Check that `fully_shard` has spread all that is trained over this run's ranks.

        Raises:
            InputError: a parameter is whole, or is spread over other ranks.
        """
        for name, parameter in module.named_parameters():
            if not isinstance(parameter, DTensor):
                if parameter.requires_grad:
                    raise InputError(f"run.prepare: parameter {name} is not sharded", hint=_HINT)
            elif parameter.device_mesh != self.mesh:
                raise InputError(
                    f"run.prepare: parameter {name} is sharded over another mesh than run.mesh()",
                    hint=_HINT,
                )

    @staticmethod
    def check_optimizer(optimizer: Optimizer) -> None:
        """Check that the optimizer updates sharded parameters.

        Raises:
            InputError: it was made of those that `fully_shard` has replaced.
        """
        for group in optimizer.param_groups:
            if not all(isinstance(each, DTensor) for each in group["params"]):
                raise InputError(
                    f"run.prepare: this {type(optimizer).__name__} holds parameters that are not"
                    " sharded",
                    hint="make the optimizer after fully_shard, which replaces the parameters",
                )

    @staticmethod
    def synchronise(module: nn.Module, wanted: bool) -> None:
        """Whether the next backward pass reduces gradients, or only accumulates them."""
        for part in module.modules():
            if isinstance(part, FSDPModule):
                part.set_requires_gradient_sync(wanted, recurse=False)

    @staticmethod
    def guard(outputs: Any, weightless: Callable[[], bool]) -> None:
        """Let no gradient into the model from a batch without weight.

        Its loss may be a mean over nothing, nan perhaps, and 0 x nan is nan. The backward pass runs
        all the same: the other ranks wait in it for this rank's parts.
        """

        def silence(gradient: torch.Tensor) -> torch.Tensor | None:
            return torch.zeros_like(gradient) if weightless() else None

        for each in tree_leaves(outputs):
            if isinstance(each, torch.Tensor) and each.requires_grad:
                each.register_hook(silence)  # type: ignore[no-untyped-call]

    # -- states

    @staticmethod
    def gathered(value: torch.Tensor) -> torch.Tensor:
        """Return a tensor as a whole on every rank; all ranks call this together."""
        return value.full_tensor() if isinstance(value, DTensor) else value

    def whole(self, value: Any) -> Any:
        """Return a state with its shards put together, on the host; all ranks call this together.

        On ranks other than the mesh's first the tensors are left out: each is let go as soon as it
        has been gathered, so that no device ever holds more than one whole tensor besides its part.
        """
        if isinstance(value, DTensor):
            full = value.full_tensor()
            return full.cpu() if self.mesh.get_rank() == 0 else None
        if isinstance(value, dict):
            return {key: self.whole(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.whole(item) for item in value)
        return value

    def parts(self, state: Any, own: Any) -> Any:
        """Return this rank's parts of a whole state, spread as its `own` state now is."""
        if isinstance(own, DTensor) and isinstance(state, torch.Tensor):
            return _part(state, own) if own.shape == state.shape else state
        if isinstance(own, dict) and isinstance(state, dict):
            return {key: self.parts(item, own.get(key)) for key, item in state.items()}
        if isinstance(own, (list, tuple)) and isinstance(state, (list, tuple)):
            pairs = zip_longest(state, own[: len(state)])
            return type(state)(self.parts(*pair) for pair in pairs)
        return state

    @staticmethod
    def spread(state: Any) -> bool:
        """Whether a state holds something that is spread over the ranks."""
        return any(isinstance(each, DTensor) for each in tree_leaves(state))

    def load_model(self, module: nn.Module, state: dict[str, Any]) -> None:
        """Load the whole state of a model: each rank takes its own part.

        Raises:
            RuntimeError: names or shapes differ from the model's.
        """
        module.load_state_dict(self.parts(state, module.state_dict()))

    def load_optimizer(self, optimizer: Optimizer, state: dict[str, Any]) -> None:
        """Load the whole state of an optimizer: each rank takes its own part.

        Raises:
            TrainingError: it keeps tensors that are neither numbers nor shaped as the parameters.
            ValueError: its groups differ from the optimizer's.
        """
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        parts: dict[Any, Any] = {}
        for place, kept in state["state"].items():
            parameter = parameters[place] if place < len(parameters) else None
            parts[place] = {name: _part_of_state(each, parameter) for name, each in kept.items()}
        optimizer.load_state_dict({**state, "state": parts})


def over(generation: Generation, device: torch.device, interrupted: Callable[[], bool]) -> Sharding:
    """Form the group of a generation, and return the sharding over its ranks.

    Raises:
        TrainingError: a rank was lost meanwhile.
    """
    of_the_launcher = dist.is_initialized()
    try:
        group = _group.form(
            HashStore() if generation.store is None else generation.store,  # alone
            generation=generation.number,
            rank=generation.rank,
            world_size=generation.world_size,
            device=device,
            interrupted=interrupted,
        )
    except Interrupted:
        raise TrainingError("run.mesh: a rank was lost before all had met") from None
    if not of_the_launcher:  # the model holds it to the end, when its threads cannot be joined
        _group.park(group)
    return Sharding(DeviceMesh.from_group(group, device.type))


def _part(whole: torch.Tensor, like: DTensor) -> DTensor:
    """Return this rank's part of `whole`, spread as `like`; no rank waits for another."""
    here = whole.to(device=like.device, dtype=like.dtype)
    return distribute_tensor(here, like.device_mesh, like.placements, src_data_rank=None)


def _part_of_state(value: Any, parameter: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return value
    if isinstance(parameter, DTensor) and parameter.shape == value.shape:
        return _part(value, parameter)
    raise TrainingError(
        f"an optimizer's state of shape {tuple(value.shape)} cannot be sharded",
        hint="with a sharded model use an optimizer whose state is shaped as its parameters:"
        " SGD, Adam, AdamW",
    )
