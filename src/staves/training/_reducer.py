"""The weighted reducer: a communication hook for DistributedDataParallel.

The gradient of the union batch is g = sum_i (b_i / B) g_i, g_i the mean gradient of rank i's b_i
samples (Cannikin, Middleware '24). The factor goes into the loss, where it costs nothing; the hook
sums. Where a step's weight is known only at its end, the hook scales each bucket in place before
the sum, without a copy.
"""

# No `from __future__ import annotations`: torch wants the hook's annotations as objects, not as
# text.
import math
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future

from staves.training._links import Link
from staves.training._noise import GradientNorms
from staves.training._pacing import Pacer
from staves.training._timing import StepTimer

_SUM = dist.AllreduceOptions()  # of the default operation
if hasattr(_SUM, "asyncOp"):  # since torch 2.7
    _SUM.asyncOp = True

_settling = threading.Lock()  # two threads must not complete one future


class WeightedReducer:
    """Scale, sum and time the gradient buckets of one process group, and take their norms.

    The hook returns a future of its own, completed from the collective's: a step can then be given
    up (`abandon`) while a collective that will never end is left behind.

    A rank that has set `veto` makes the step void on all ranks. On a CPU it spoils the first number
    of its last bucket, which every rank looks at: nan there, the script's own perhaps, calls for a
    vote, and a step without one costs nothing. On other devices the look would be a
    synchronisation; the vote goes beside the last bucket, on the host.
    `launched` counts the buckets of the backward pass under way; `first` says that it is the first.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        timer: StepTimer,
        pacer: Pacer | None,
        norms: GradientNorms | None = None,
        *,
        elements: int,
        device: torch.device,
    ) -> None:
        self.weight = 1.0
        self.group, self._norms = group, norms
        self._timer, self._pacer = timer, pacer
        self._elements = max(1, elements)
        self._devices: list[int | str | torch.device] | None = (
            [device] if device.type == "cuda" else None
        )
        self._ready_elements = 0
        self._pending: list[Future[torch.Tensor]] = []
        self.launched = 0
        self.first, self._begun = True, False
        self.veto = False
        self._votes_beside = device.type != "cpu"
        self._last: torch.Tensor | None = None
        self._vote: tuple[torch.Tensor, Future[torch.Tensor]] | None = None
        self._failures: list[Exception] = []

    def begin(self) -> None:
        """A synchronising backward pass starts."""
        self._ready_elements = self.launched = 0
        self.first, self._begun = not self._begun, True
        self.veto, self._last, self._vote = False, None, None
        self._pending.clear()

    def hook(self, state: object, bucket: GradBucket) -> Future[torch.Tensor]:
        """Reduce one bucket; runs in the autograd thread, so it only scales, stamps and
        launches."""
        buffer = bucket.buffer()
        if self._norms is not None and not self.veto:
            self._norms.bucket(bucket, buffer)
        if self._pacer is not None:
            self._ready_elements += buffer.numel()
            last = bucket.is_last()
            self._pacer.bucket(1.0 if last else self._ready_elements / self._elements)
        place = self._timer.bucket_ready(buffer.nbytes)
        if self.weight == 0.0:
            buffer.zero_()  # 0 x NaN is NaN: a rank without samples must add nothing
        elif self.weight != 1.0:
            buffer.mul_(self.weight)
        if bucket.is_last():
            self._last = buffer
            if self._votes_beside:
                self._cast()
            elif self.veto:
                buffer[0] = math.nan
        timer = self._timer
        link = None if self._pacer is None else self._pacer.link
        reduced = self._sum(buffer, lambda: timer.bucket_done(place), self._devices, link)
        self.launched += 1
        return reduced

    def _sum(
        self,
        buffer: torch.Tensor,
        done: Callable[[], None],
        devices: list[int | str | torch.device] | None,
        link: Link | None = None,
    ) -> Future[torch.Tensor]:
        """Sum `buffer` over all ranks; the future is ours, to be failed where it never ends."""
        # What `dist.all_reduce` checks on its way there costs as much as a small sum.
        work = self.group.allreduce([buffer], _SUM)
        future: Future[torch.Tensor] = Future(devices=devices)
        self._pending.append(future)

        # Holds neither the reducer nor its group: a thread of the group runs it and lets it go, and
        # must never be the one to destroy the group, which waits for that very thread.
        settle, failures = self._settle, self._failures

        def arrived() -> None:
            done()
            settle(future, buffer)

        def complete(reduced: Future[Any]) -> None:
            try:
                reduced.value()
            except Exception as error:
                done()
                failures.append(error)
                settle(future, error)
            else:
                if link is None:
                    arrived()
                else:
                    link.carry(buffer.nbytes, arrived)

        work.get_future().add_done_callback(complete)
        return future

    @property
    def voted(self) -> bool:
        """Whether this rank's last bucket is on its way: too late for a veto."""
        return self._last is not None

    def vetoed(self) -> bool:
        """Whether a rank has given up the step whose last bucket has been reduced; alike on all."""
        if self._last is None:
            return False
        if self._vote is None:
            if not math.isnan(self._last[0].item()):
                return False
            self._cast()
            assert self._vote is not None
        ballot, vote = self._vote
        vote.wait()
        return bool(ballot.item() > 0)

    def _cast(self) -> None:
        ballot = torch.tensor([float(self.veto)])
        self._vote = ballot, self._sum(ballot, lambda: None, None)

    @property
    def failed(self) -> bool:
        """Whether a collective has failed; the backward pass then raises an error of torch's
        own."""
        return bool(self._failures)

    @property
    def waits(self) -> bool:
        """Whether a bucket is under way: reduced here as soon as all ranks have theirs."""
        return any(not future.done() for future in list(self._pending))

    def abandon(self, error: Exception) -> None:
        """Fail every bucket still under way, so that the backward pass raises at once."""
        for future in list(self._pending):
            self._settle(future, error)

    @staticmethod
    def _settle(future: Future[torch.Tensor], outcome: torch.Tensor | Exception) -> None:
        """Complete a bucket, unless it is complete: its group's thread and the watcher may both
        come at once, and the second one must neither raise nor touch it."""
        with _settling:
            if future.done():
                return
            if isinstance(outcome, Exception):
                future.set_exception(outcome)  # type: ignore[arg-type]  # torch's stub is wrong
            else:
                future.set_result(outcome)
