"""The diagonal preconditioner of Adam-like optimizers, in whose norm their noise scale counts.

An update of Adam is about g / sqrt(v): noise in a direction of small v moves the parameters as much
as noise in any other. So norms are those of d g, with d = 1 / (sqrt(v) + 0.3 rms(sqrt(v))), v the
bias-corrected average of squared gradients and rms over each parameter tensor. Without the second
term a row that is hardly ever used (of an embedding) would outweigh all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import GradBucket
from torch.optim import Optimizer

FLOOR = 0.3

_SECOND_MOMENTS = ("exp_avg_sq", "square_avg", "sum")  # Adam and its like, RMSprop, Adagrad


class Preconditioner:
    """The factors d of all parameters, alike on all ranks and fixed until they are renewed."""

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        self._optimizers = optimizers
        self._moments: dict[torch.Tensor, tuple[torch.Tensor, Any]] = {}
        self._of_parameters: dict[torch.Tensor, torch.Tensor] = {}
        self._of_buckets: dict[int, tuple[torch.Tensor, int, torch.Tensor]] = {}

    @property
    def active(self) -> bool:
        """Whether an optimizer has second moments; before its first update it has none."""
        return bool(self._moments)

    def renew(self) -> None:
        """Take the optimizers' second moments as they are now. All ranks do so at the same step."""
        self._of_parameters.clear()
        self._of_buckets.clear()
        self._moments.clear()
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    state = optimizer.state.get(parameter, {})
                    if not state.get("step", 1):  # Adagrad has zeros before its first update
                        continue
                    for name in _SECOND_MOMENTS:
                        if name in state:
                            correction = _correction(name, group, state.get("step"))
                            self._moments[parameter] = state[name], correction

    def of_parameter(self, parameter: torch.Tensor) -> torch.Tensor | None:
        """Return d in the parameter's shape; None where it is 1."""
        if parameter not in self._moments:
            return None
        if parameter not in self._of_parameters:
            moment, correction = self._moments[parameter]
            root = (moment.float() / correction).sqrt()
            below = root + FLOOR * root.square().mean().sqrt()
            # Where no gradient ever came there is nothing to scale.
            self._of_parameters[parameter] = torch.where(below > 0, 1 / below, 0.0)
        return self._of_parameters[parameter]

    def of_bucket(self, bucket: GradBucket, buffer: torch.Tensor) -> torch.Tensor | None:
        """Return d in the layout of a gradient bucket, shape (elements,); None where it is 1."""
        if not self._moments:
            return None
        parameters = bucket.parameters()
        # Buckets are laid out anew after the first step of a wrapper.
        known = self._of_buckets.get(bucket.index())
        if known is not None and known[0] is parameters[0] and known[1] == len(parameters):
            return known[2]
        scales = torch.ones_like(buffer, dtype=torch.float32)
        for parameter, part in zip(parameters, bucket.gradients(), strict=True):
            own = self.of_parameter(parameter)
            if own is not None:
                place = part.storage_offset() - buffer.storage_offset()
                scales.as_strided(part.size(), part.stride(), place).copy_(own)
            self._of_parameters.pop(parameter, None)  # one copy is enough
        self._of_buckets[bucket.index()] = parameters[0], len(parameters), scales
        return scales


def _correction(name: str, group: dict[str, Any], step: Any) -> Any:
    """Return what the moment is to be divided by: an average that starts at 0 is too small."""
    if step is None:
        return 1.0
    if name == "sum":
        return step
    decay = group["betas"][1] if "betas" in group else group["alpha"]
    return 1 - decay**step
