"""The prepared model: the user's module, reduced by DistributedDataParallel behind a stable
face."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from staves.errors import InputError
from staves.training._memory import first_samples, repeated, too_large
from staves.training._reducer import WeightedReducer

if TYPE_CHECKING:
    from staves.training._sharding import Sharding

# torch 2.13 renamed the option.
_NO_BUFFERS: dict[str, Any] = {
    name: False
    for name in ("forward_sync_buffers", "broadcast_buffers")
    if name in signature(DistributedDataParallel).parameters
}
if len(_NO_BUFFERS) > 1:
    del _NO_BUFFERS["broadcast_buffers"]


_WRAPPERS = {
    "FSDPModule": "is sharded (fully_shard) over ranks that are not run.mesh()",
    "FullyShardedDataParallel": "shards its parameters (FSDP)",
    "DistributedDataParallel": "is a DistributedDataParallel",
    "DataParallel": "is a DataParallel",
    "PreparedModel": "is prepared already",
}


def check_bare(module: nn.Module, caller: str = "run.prepare") -> None:
    """Refuse a model that something else distributes already.

    Args:
        module: the model.
        caller: who was given it, for messages.

    Raises:
        InputError: it, or a part of it, is wrapped or sharded.
    """
    for part in module.modules():
        for base in type(part).__mro__:  # by name: FSDP's modules are not loaded for this
            if base.__name__ in _WRAPPERS:
                raise InputError(
                    f"{caller}: the model {_WRAPPERS[base.__name__]}",
                    hint="give the bare model, whose gradients Staves reduces itself; or use"
                    " fully_shard(layer, mesh=run.mesh())",
                )


class StepInside(Protocol):
    """What a prepared model asks the step under way."""

    void: bool
    weightless: bool

    @property
    def samples_at_once(self) -> int:
        """Samples of the batch under way on this rank, those of a stand-in included."""

    def may_clear(self) -> bool:
        """Whether gradients may be cleared."""

    def lose(self, error: Exception) -> bool:
        """The forward pass has failed: whether only the step is lost by it."""


class PreparedModel(nn.Module):
    """What `run.prepare` returns for a model.

    It behaves as the model itself: attributes, parameters' names and `state_dict` are the model's
    own. The wrapper that reduces the gradients can be replaced underneath (the membership changed)
    while user code keeps this object.
    """

    def __init__(
        self, module: nn.Module, step: StepInside, sharding: Sharding | None = None
    ) -> None:
        super().__init__()
        self.module, self.sharding = module, sharding
        # Neither is a submodule: it would register every parameter a second time.
        object.__setattr__(self, "_step", step)
        object.__setattr__(self, "_ddp", None)

    def distribute(
        self, group: dist.ProcessGroup, reducer: WeightedReducer, options: dict[str, Any]
    ) -> None:
        """Reduce the gradients over `group` from now on; parameters are sent out from its rank
        0."""
        ddp = DistributedDataParallel(
            self.module,
            process_group=group,
            gradient_as_bucket_view=True,
            # All ranks have the source's state already, and buffers stay each rank's own: a
            # collective in the forward pass could not be given up.
            init_sync=False,
            **_NO_BUFFERS,
            **options,
        )
        ddp.register_comm_hook(None, reducer.hook)
        object.__setattr__(self, "_ddp", ddp)

    def release(self) -> Any:
        """Take the wrapper off, and return it (to be parked where its generation broke)."""
        ddp = self._ddp
        object.__setattr__(self, "_ddp", None)
        if ddp is not None:
            # Its hooks hang on the parameters: a wrapper that lives on would go on reducing.
            ddp._remove_autograd_hooks()
        return ddp

    def synchronise(self, wanted: bool) -> None:
        """Whether the next backward pass reduces gradients, or only accumulates them."""
        if self.sharding is not None:
            self.sharding.synchronise(self.module, wanted)
        if self._ddp is not None:
            self._ddp.require_backward_grad_sync = wanted

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Run the model; while training, in the wrapper that reduces its gradients."""
        if not (self.training and torch.is_grad_enabled()):
            # An evaluation must start no collective: the other ranks may not be evaluating.
            return self.module(*inputs, **options)
        if not self._step.void:
            try:
                outputs = (self.module if self._ddp is None else self._ddp)(*inputs, **options)
                if self.sharding is not None:
                    self.sharding.guard(outputs, lambda: self._step.weightless)
                return outputs
            except RuntimeError as error:
                # Memory has run out; or the wrapper, which agrees on its buckets once in a
                # generation, has lost a rank.
                if not self._step.lose(error):
                    raise
        # Not in the clause above: the error holds the failed pass, and so its memory.
        return self._stand_in(inputs, options)

    def _stand_in(self, inputs: Any, options: Any) -> Any:
        """Return an output of the wanted form for a step that is void, in as little memory as
        that takes."""
        batch = count = max(1, self._step.samples_at_once)
        while True:
            cut = [first_samples(each, batch, count) for each in (inputs, options)]
            try:
                with torch.no_grad():
                    output = self.module(*cut[0], **cut[1])
                return repeated(output, count, batch)
            except torch.OutOfMemoryError as error:
                if count == 1:
                    raise too_large() from error
            count //= 2

    def take_part(self, reducer: WeightedReducer, *, midway: bool) -> None:
        """Run the collectives of the step under way that this rank has not run yet, with zeros.

        Args:
            reducer: of the gradients.
            midway: whether the failed pass was that of the reduction.

        As torch's own `Join` does for a rank without data, but from the bucket on that its own
        backward pass has come to. Returns when they are through.
        """
        ddp = self._ddp
        if not midway:
            ddp.reducer._rebuild_buckets()  # the others do, on their way into the second step
        works = []

        def tell_used() -> None:
            works.append(ddp.process_group.allreduce(ddp.reducer._get_local_used_map()))

        if ddp.static_graph and reducer.first:  # then the wrapper reduces all at the very end
            tell_used()
        zeros = ddp.reducer._get_zeros_like_grad_buckets()[reducer.launched :]
        works += [reducer.hook(None, bucket) for bucket in zeros]
        if ddp.find_unused_parameters and not ddp.static_graph:
            tell_used()
        for work in works:
            work.wait()

    @property
    def averaged_over(self) -> int:
        """Over how many ranks something else than the reducer takes the mean of the gradients."""
        return 1 if self.sharding is None else self.sharding.ranks

    @property
    def static(self) -> bool:
        """Whether the wrapper takes every step to run the same graph."""
        return self._ddp is not None and bool(self._ddp.static_graph)

    @property
    def meets_in_forward(self) -> bool:
        """Whether the forward pass itself waits for other ranks."""
        return any(isinstance(module, nn.SyncBatchNorm) for module in self.module.modules())

    def splits_batch_norm(self) -> bool:
        """Whether a layer normalises each rank's samples by themselves."""
        kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
        return any(isinstance(module, kinds) for module in self.module.modules())

    def has_batch_norm(self) -> bool:
        """Whether a layer's output depends on the other samples of its local batch."""
        kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
        return any(isinstance(module, kinds) for module in self.module.modules())

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients, unless they are still being accumulated."""
        if self._step.may_clear():
            self.module.zero_grad(set_to_none=set_to_none)

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """Return the model's own state, without a prefix."""
        return self.module.state_dict(*args, **options)

    def load_state_dict(self, *args: Any, **options: Any) -> Any:
        """Load the model's own state."""
        return self.module.load_state_dict(*args, **options)

    def named_parameters(self, *args: Any, **options: Any) -> Any:
        """Name the parameters as the model does."""
        return self.module.named_parameters(*args, **options)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)
