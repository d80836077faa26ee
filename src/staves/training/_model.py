"""The prepared model: the user's module, reduced by DistributedDataParallel behind a stable
face."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from staves.training._reducer import WeightedReducer

# torch 2.13 renamed the option.
_NO_BUFFERS: dict[str, Any] = {
    name: False
    for name in ("forward_sync_buffers", "broadcast_buffers")
    if name in signature(DistributedDataParallel).parameters
}
if len(_NO_BUFFERS) > 1:
    del _NO_BUFFERS["broadcast_buffers"]


class PreparedModel(nn.Module):
    """What `run.prepare` returns for a model.

    It behaves as the model itself: attributes, parameters' names and `state_dict` are the model's
    own. The wrapper that reduces the gradients can be replaced underneath (the membership changed)
    while user code keeps this object.
    """

    def __init__(
        self,
        module: nn.Module,
        may_clear: Callable[[], bool] = lambda: True,
        lose: Callable[[Exception], bool] = lambda error: False,
    ) -> None:
        super().__init__()
        self.module = module
        self._may_clear, self._lose = may_clear, lose
        # Not a submodule: it would register every parameter a second time.
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
        if self._ddp is not None:
            self._ddp.require_backward_grad_sync = wanted

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Run the model; while training, in the wrapper that reduces its gradients."""
        if self._ddp is not None and self.training and torch.is_grad_enabled():
            try:
                return self._ddp(*inputs, **options)
            except RuntimeError as error:
                # Once in a generation the wrapper agrees on its buckets, which is a collective.
                if not self._lose(error):
                    raise
        # An evaluation must start no collective: the other ranks may not be evaluating.
        return self.module(*inputs, **options)

    def has_batch_norm(self) -> bool:
        """Whether a layer's output depends on the other samples of its local batch."""
        kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
        return any(isinstance(module, kinds) for module in self.module.modules())

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients, unless they are still being accumulated."""
        if self._may_clear():
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
