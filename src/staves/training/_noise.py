"""Norms of the gradients of a step's groups, for the noise scale: taken where the reducer has them.

A group is a micro-batch of a rank. With one micro-batch a rank's bucket holds its group's gradient
just before it is summed; under accumulation the bucket only sees the sum, and hooks on the
parameters take each micro-batch's norm by itself, without a copy of any gradient.

A micro-batch of weight w (its samples, or its tokens) comes with its loss times w / unit, so that
its gradient is x = (w / unit) g. With W the weight of the whole batch of B samples, the group
counts b = w B / W samples, and

    sum of b |g|^2 = (B / W) sum of (unit^2 / w) |x|^2.

Each rank adds the squared norm of its own share of the reduced gradient, so that one small
all-reduce tells all of them the very same numbers. It is launched when a step's last bucket is
through, and read a step or more later, when it has long been done: nobody waits for it, and the
host never for the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from staves.convergence import NoiseScale, noise_scale
from staves.training._interrupt import Interrupted, poll
from staves.training._preconditioner import Preconditioner

RENEW = 10
"""Steps for which a preconditioner is kept: second moments move slowly."""

SPARSE = 8
"""Once the noise scale is known well, norms are taken in every so many steps only.

They cost up to 5 % of a step on a CPU that computes little for each parameter.
"""

_AT_ONCE = 1 << 16  # elements scaled at once on the CPU: they stay in its cache


@dataclass(frozen=True, slots=True)
class Measured:
    """One step's estimate, and whether its norms were preconditioned."""

    noise_scale: NoiseScale
    batch: int
    preconditioned: bool


@dataclass(frozen=True, slots=True)
class _Pending:
    """The sums of a step, under way: weighted squares, groups, the reduced gradient's square."""

    step: int
    sums: torch.Tensor
    batch: int
    preconditioned: bool
    work: dist.Work | None
    mark: torch.cuda.Event | None

    def done(self) -> bool:
        if self.work is not None and not self.work.is_completed():
            return False
        return self.mark is None or bool(self.mark.query())  # type: ignore[no-untyped-call]


class GradientNorms:
    """The squared norms of one step after the other. All ranks call the same methods.

    Args:
        optimizers: whose second moments precondition the norms; the list may still grow.
        device: of the gradients.
    """

    def __init__(self, optimizers: Sequence[Optimizer], device: torch.device) -> None:
        self.loss_scale = 1.0
        """The factor on all losses of this step, as gradient scaling for fp16 has one."""
        self.waits = False
        self._preconditioner = Preconditioner(optimizers)
        self._renewed = False
        self._device = device
        self._side: torch.cuda.Stream | None = None
        self._by_parameter = False
        self._handles: list[RemovableHandle] = []
        self._step, self._taken = 0, True
        self._factor = 0.0
        self._groups = 0
        self._squares: list[tuple[float, torch.Tensor]] = []
        self._reduced: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        self._pending: list[_Pending] = []

    def begin(self, module: nn.Module, *, step: int, micro_steps: int, sparse: bool) -> None:
        """A step starts, perhaps once more: one that was void leaves nothing.

        `sparse`: the noise scale is known well; alike on all ranks.
        """
        if self._pending and self._pending[-1].step == step:
            self._pending.pop()
        every = SPARSE if sparse else 1
        self._step, self._taken = step, step % every == 0
        if step % (every * RENEW) == 0 or not self._renewed:
            self._preconditioner.renew()
            self._renewed = True
        self._groups, self._factor = 0, 0.0
        self._squares.clear()
        self._reduced.clear()
        if self._by_parameter != (micro_steps > 1):
            self._by_parameter = micro_steps > 1
            self._hook(module if self._by_parameter else None)

    def group(self, weight: float, unit: float) -> None:
        """A micro-batch of that weight follows; one without weight is no group."""
        self._factor = unit**2 / weight if weight > 0 and self._taken else 0.0
        self._groups += weight > 0

    def bucket(self, bucket: GradBucket, buffer: torch.Tensor) -> None:
        """Take a bucket before it is scaled and summed. Runs in the autograd thread."""
        if not self._taken:
            return
        scale = self._preconditioner.of_bucket(bucket, buffer)
        if not self._by_parameter and self._factor:
            self._squares.append((self._factor, _square(buffer, scale)))
        self._reduced.append((buffer, scale))

    def reduce(
        self,
        module: nn.Module,
        *,
        batch: int,
        weight: float,
        group: dist.ProcessGroup | None,
    ) -> None:
        """The step's gradient is whole: send the sums on their way."""
        if not self._taken:
            return
        squares, share = self._squares, batch / weight
        if group is None:
            of_parameter = self._preconditioner.of_parameter
            pairs = ((p.grad, p) for p in module.parameters())
            reduced = [_square(grad, of_parameter(p)) for grad, p in pairs if grad is not None]
        else:
            reduced = list(self._own_share(group))
        own = [share * factor * self._total(each) for factor, each in _by_factor(squares)]
        sums = torch.stack([self._total(own), self._number(self._groups), self._total(reduced)])
        sums[::2] /= self.loss_scale**2
        work = None if group is None else dist.all_reduce(sums, group=group, async_op=True)
        mark = None
        if self._device.type == "cuda" and work is None:
            mark = torch.cuda.Event()  # type: ignore[no-untyped-call]
            mark.record()
        preconditioned = self._preconditioner.active
        self._pending.append(_Pending(self._step, sums, batch, preconditioned, work, mark))
        self._squares, self._reduced = [], []

    def take(self, interrupted: Callable[[], bool]) -> Measured | None:
        """Return what the step before the last one with norms has measured, alike on all ranks.

        None where there is no such step, where it had less than two groups or gradients that are
        not finite, and where the generation has broken.
        """
        if len(self._pending) < 2:
            return None
        pending = self._pending.pop(0)
        self.waits = True
        try:
            poll(pending.done, interrupted)
            if pending.work is not None:
                pending.work.wait()
        except (Interrupted, RuntimeError):
            # The ranks may not all have it: nobody uses it. A loss is told by the next bucket too.
            self._pending.clear()
            return None
        finally:
            self.waits = False
        weighted, groups, square = self._read(pending.sums)
        if groups < 2 or not (math.isfinite(weighted) and math.isfinite(square)):
            return None
        step = noise_scale.from_sums(weighted, round(groups), pending.batch, square)
        return Measured(step, pending.batch, pending.preconditioned)

    def drop(self) -> list[Any]:
        """Forget what is under way, and return it (to be parked where its generation broke).

        The preconditioner is taken anew then, on those that join and on those that stay.
        """
        pending, self._pending = list(self._pending), []
        self._squares, self._reduced = [], []
        self._renewed = False
        return pending

    def _own_share(self, group: dist.ProcessGroup) -> Iterable[torch.Tensor]:
        rank, world = group.rank(), group.size()
        for buffer, scale in self._reduced:
            own = buffer.tensor_split(world)[rank]
            yield _square(own, None if scale is None else scale.tensor_split(world)[rank])

    def _hook(self, module: nn.Module | None) -> None:
        """Take norms by hooks on the parameters of `module`, or no more."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for parameter in [] if module is None else module.parameters():
            if parameter.requires_grad:
                self._handles.append(parameter.register_hook(self._hook_of(parameter)))  # type: ignore[no-untyped-call]

    def _hook_of(self, parameter: torch.Tensor) -> Callable[[torch.Tensor], None]:
        def hook(gradient: torch.Tensor) -> None:
            if self._factor:
                scale = self._preconditioner.of_parameter(parameter)
                self._squares.append((self._factor, _square(gradient, scale)))

        return hook

    def _read(self, sums: torch.Tensor) -> list[float]:
        """Return the numbers; on CUDA beside the stream on which the next step is queued."""
        if sums.device.type != "cuda":
            return [float(each) for each in sums.tolist()]
        self._side = self._side or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._side):
            return [float(each) for each in sums.tolist()]

    def _total(self, squares: Sequence[torch.Tensor]) -> torch.Tensor:
        if not squares:
            return self._number(0.0)
        return torch.stack(list(squares)).double().sum()

    def _number(self, value: float) -> torch.Tensor:
        return torch.full((), value, dtype=torch.float64, device=self._device)


def _by_factor(
    squares: Sequence[tuple[float, torch.Tensor]],
) -> Iterable[tuple[float, list[torch.Tensor]]]:
    together: dict[float, list[torch.Tensor]] = {}
    for factor, square in squares:
        together.setdefault(factor, []).append(square)
    return together.items()


def _square(values: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    """Return |scale values|^2, a tensor without dimensions."""
    if values.is_sparse:
        values, scale = values.coalesce().values(), None
    flat = values.detach().reshape(-1)
    if scale is not None:
        if flat.numel() > _AT_ONCE and not flat.is_cuda:
            parts = torch.split(flat, _AT_ONCE), torch.split(scale.reshape(-1), _AT_ONCE)
            return torch.stack([_square(*pair) for pair in zip(*parts, strict=True)]).sum()
        flat = flat * scale.reshape(-1)
    if flat.dtype in (torch.float32, torch.float64):
        return torch.dot(flat, flat)
    norm: torch.Tensor = torch.linalg.vector_norm(flat, dtype=torch.float32)
    return norm.square()
