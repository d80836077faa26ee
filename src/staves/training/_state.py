"""The full training state: what a joiner receives, and what a checkpoint holds.

One dictionary of plain containers and tensors: the model, optimizers, schedules, registered
objects, and the run's own progress. World size is in none of it, so it loads at any number of
ranks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

from staves.errors import InputError, TrainingError
from staves.training._exchange import Exchange
from staves.training._interrupt import run_interruptibly

if TYPE_CHECKING:
    from staves.training._sharding import Sharding


@dataclass
class TrainingState:
    """References to everything that has state."""

    model: nn.Module | None = None
    optimizers: list[Any] = field(default_factory=list)
    schedules: list[Any] = field(default_factory=list)
    registered: dict[str, Any] = field(default_factory=dict)
    sharding: Sharding | None = None
    """Where the model and the optimizers are spread over the ranks; none holds them whole."""

    def register(self, name: str, each: Any) -> None:
        """Carry `each` along: it must have `state_dict` and `load_state_dict`."""
        if not (hasattr(each, "state_dict") and hasattr(each, "load_state_dict")):
            raise InputError(
                f"run.register({name!r}): a {type(each).__name__} has no state_dict",
                hint="give it state_dict() and load_state_dict(state)",
            )
        if name in self.registered and self.registered[name] is not each:
            raise InputError(f"run.register({name!r}): the name is taken", hint="choose another")
        self.registered[name] = each

    def capture(self, progress: dict[str, Any], *, shared: bool = False) -> dict[str, Any]:
        """Return the state; its tensors are the live ones, not copies.

        That of a sharded model is gathered: all ranks call this together, and rank 0 alone gets it
        whole. `shared` leaves out what is spread over the ranks; then nothing is waited for.
        """
        sharding = self.sharding
        model: Any = self.model.state_dict() if self.model is not None else {}
        optimizers: Any = [each.state_dict() for each in self.optimizers]
        registered = {name: each.state_dict() for name, each in self.registered.items()}
        if sharding is not None and shared:
            model, optimizers = None, None
            registered = {k: None if sharding.spread(v) else v for k, v in registered.items()}
        elif sharding is not None:
            model, optimizers, registered = sharding.whole((model, optimizers, registered))
        return {
            "progress": progress,
            "model": model,
            "optimizers": optimizers,
            "schedules": [each.state_dict() for each in self.schedules],
            "registered": registered,
        }

    def restore(self, state: dict[str, Any]) -> dict[str, Any]:
        """Load a state, and return the progress in it.

        Raises:
            TrainingError: it does not fit what this script has prepared and registered.
        """
        self._check(state)
        try:
            if state["model"] is not None:
                self._restore_weights(state)
            for each, own in zip(self.schedules, state["schedules"], strict=True):
                each.load_state_dict(own)
            for name, each in self.registered.items():
                own = state["registered"][name]
                if own is not None and self.sharding is not None:
                    own = self.sharding.parts(own, each.state_dict())
                if own is not None:  # else each rank keeps its own part
                    each.load_state_dict(own)
        except (RuntimeError, ValueError, KeyError) as error:
            line = " ".join(str(error).split())
            raise TrainingError(f"the state does not fit this script: {line}") from error
        progress: dict[str, Any] = state["progress"]
        return progress

    def _restore_weights(self, state: dict[str, Any]) -> None:
        sharding = self.sharding
        if self.model is not None and sharding is not None:
            sharding.load_model(self.model, state["model"])
        elif self.model is not None:
            self.model.load_state_dict(state["model"])
        for each, own in zip(self.optimizers, state["optimizers"], strict=True):
            if sharding is not None:
                sharding.load_optimizer(each, own)
            else:
                each.load_state_dict(own)

    def _check(self, state: dict[str, Any]) -> None:
        for kind, own in (("optimizers", self.optimizers), ("schedules", self.schedules)):
            if state[kind] is not None and len(state[kind]) != len(own):
                raise TrainingError(
                    f"the state has {len(state[kind])} {kind}, this script prepares {len(own)}",
                    hint="it was saved by another script, or before this one changed",
                )
        missing = set(self.registered) ^ set(state["registered"])
        if missing:
            raise TrainingError(
                f"registered objects differ from the state's: {', '.join(sorted(missing))}",
                hint="register the same names before run.epochs",
            )


def transfer(
    state: dict[str, Any] | None,
    *,
    exchange: Exchange,
    source: int,
    receivers: tuple[int, ...],
    interrupted: Callable[[], bool],
) -> dict[str, Any] | None:
    """Carry rank `source`'s state to the receivers; all ranks of the generation call this.

    Returns the state on receivers, and None elsewhere.

    Raises:
        Interrupted: the generation broke meanwhile; what was received so far counts for nothing.
        TrainingError: a receiver's hash differs from the source's.
    """
    rank = exchange.rank
    tensors: list[torch.Tensor] = []
    skeleton = _take_apart(state, tensors) if rank == source else None
    skeleton, layout = exchange.broadcast(
        (skeleton, [(tuple(t.shape), t.dtype) for t in tensors]), source
    )
    everyone = len(receivers) == exchange.world_size - 1
    if rank == source:
        tensors = [t.detach().cpu().contiguous() for t in tensors]
    elif rank in receivers:
        tensors = [torch.empty(shape, dtype=dtype) for shape, dtype in layout]
    else:
        tensors = []
    digest = 0
    if rank == source:
        # The hash is taken while the tensors are under way.
        def send() -> None:
            works = [w for t in _bytes(tensors) for w in _send(t, source, receivers, everyone)]
            for work in works:
                work.wait()

        digest = run_interruptibly(send, interrupted, lambda: _digest(tensors))
    elif rank in receivers:

        def receive() -> None:
            nonlocal digest
            works = [(_receive(t, source, everyone), t) for t in _bytes(tensors)]
            digest = 1
            for work, data in works:  # each is hashed while the next ones are under way
                work.wait()
                digest = _hash(data, digest)

        run_interruptibly(receive, interrupted)
    wanted = exchange.broadcast(digest, source)
    if rank not in receivers:
        return None
    if digest != wanted:
        raise TrainingError(
            f"the state that rank {rank} received differs from what rank {source} sent",
            hint="its hash is wrong: look for failing memory or network hardware",
        )
    whole: dict[str, Any] = _put_together(skeleton, tensors)
    return whole


@dataclass(frozen=True)
class _Place:
    """Where a tensor stood."""

    index: int


def _take_apart(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Return `value` with its tensors replaced by places, and put them into the list."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _Place(len(tensors) - 1)
    if isinstance(value, dict):
        return {key: _take_apart(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_take_apart(item, tensors) for item in value)
    return value


def _put_together(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, _Place):
        return tensors[value.index]
    if isinstance(value, dict):
        return {key: _put_together(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_put_together(item, tensors) for item in value)
    return value


def _bytes(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return byte views: every type travels alike, bit for bit."""
    return [t.reshape(-1).view(torch.uint8) for t in tensors if t.numel()]


def _digest(tensors: list[torch.Tensor]) -> int:
    digest = 1
    for data in _bytes(tensors):
        digest = _hash(data, digest)
    return digest


def _hash(data: torch.Tensor, digest: int) -> int:
    return zlib.adler32(data.numpy().data, digest)


def _send(
    data: torch.Tensor, source: int, receivers: tuple[int, ...], everyone: bool
) -> list[dist.Work]:
    if everyone:
        works = [dist.broadcast(data, src=source, async_op=True)]
    else:
        works = [dist.isend(data, dst=rank) for rank in receivers]
    return [work for work in works if work is not None]


def _receive(data: torch.Tensor, source: int, everyone: bool) -> dist.Work:
    if everyone:
        work = dist.broadcast(data, src=source, async_op=True)
    else:
        work = dist.irecv(data, src=source)
    assert isinstance(work, dist.Work)
    return work
