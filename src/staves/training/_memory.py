"""How many samples a device can hold at once: learned from what runs out, and from peaks.

A rank that runs out of memory gives its step up. It still takes part in the step's collectives,
with zeros and a veto, so that no other rank waits for it; all ranks then void the step, the rank's
cap is lowered for all to know, and the same samples come again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from staves.errors import TrainingError
from staves.training._exchange import Exchange

MARGIN = 0.92
"""Share of a device's memory that a cap may plan with: allocators fragment, peaks vary."""

REACH = 2.0
"""A cap derived from a fit goes at most this far beyond the largest batch that was measured."""

_BACK_OFF = 0.75  # of the samples that ran out
_KEPT = 64  # local batches whose peaks are kept


def lowered(samples: int) -> int:
    """Return the cap after `samples` at once have run out of memory: three quarters of them.

    Raises:
        TrainingError: a single sample is too much already.
    """
    if samples <= 1:
        raise too_large()
    return max(1, min(samples - 1, int(samples * _BACK_OFF)))


def too_large() -> TrainingError:
    """Return the error of a device that cannot hold one sample."""
    return TrainingError(
        "out of memory with a single sample at once",
        hint="the model itself is too large for this device: make it smaller, or leave the"
        " device out",
    )


def fitted_cap(peaks: Iterable[tuple[int, int]], limit: int) -> int | None:
    """Return the most samples whose peak memory, fitted, stays within a margin of `limit` bytes.

    The peak of b samples is u + v b (weights, gradients and optimizer; activations): a line by
    least squares, raised until no measured peak lies above it.

    Args:
        peaks: pairs of samples held at once and the peak memory in bytes.
        limit: bytes that the process may use.

    Returns:
        None where the peaks tell nothing: fewer than two distinct batches, or no growth with them.
        At least the largest batch that was measured within the limit, at most `REACH` times it.
    """
    pairs = [(b, peak) for b, peak in peaks if b > 0]
    batches = np.array([b for b, _ in pairs], dtype=float)
    if len(set(batches)) < 2:
        return None
    bytes_ = np.array([peak for _, peak in pairs], dtype=float)
    slope, fixed = np.polyfit(batches, bytes_, 1)
    if not slope > 0:
        return None
    fixed += float(np.max(bytes_ - (fixed + slope * batches)))
    largest = int(batches.max())
    room = int((MARGIN * limit - fixed) / slope) if MARGIN * limit > fixed else 0
    return max(largest, min(room, int(REACH * largest)))


class LocalMemory:
    """What this rank knows of its device's memory.

    Args:
        device: of this rank. Peaks are measured on CUDA alone.
        cap: the most samples at once that the user or the device's profile allows; None for any.
    """

    def __init__(self, device: torch.device, cap: int | None) -> None:
        self._device, self._cap = device, cap
        self._peaks: defaultdict[int, int] = defaultdict(int)

    @property
    def cap(self) -> int | None:
        """The most samples that this rank may be given at once."""
        fitted = self._fitted()
        caps = [cap for cap in (self._cap, fitted) if cap is not None]
        return min(caps) if caps else None

    def caps(self, exchange: Exchange | None) -> list[int | None]:
        """Return the caps of all ranks, alike on each; they all come here together."""
        if exchange is None:
            return [self.cap]
        caps: list[int | None] = exchange.broadcast(exchange.gather(self.cap))
        return caps

    def ran_out(self, samples: int) -> int:
        """That many at once were too many; return the cap from here on.

        Raises:
            TrainingError: it was a single one.
        """
        self._cap = lowered(samples)
        for batch in [batch for batch in self._peaks if batch >= samples]:
            del self._peaks[batch]  # measured before something else took its room
        return self._cap

    def step_done(self, samples: int) -> None:
        """A step that held at most so many samples at once is over: note its peak."""
        if self._device.type != "cuda":
            return
        peak = torch.cuda.max_memory_allocated(self._device)
        self._peaks[samples] = max(self._peaks[samples], peak)
        if len(self._peaks) > _KEPT:
            del self._peaks[min(self._peaks)]
        torch.cuda.reset_peak_memory_stats(self._device)

    def _fitted(self) -> int | None:
        if self._device.type != "cuda" or len(self._peaks) < 2:
            return None
        free, _ = torch.cuda.mem_get_info(self._device)
        limit = free + torch.cuda.memory_reserved(self._device)
        return fitted_cap(self._peaks.items(), limit)


def first_samples(value: Any, batch: int, count: int) -> Any:
    """Return `value` with the tensors that hold `batch` samples cut to the first `count`."""
    return _mapped(value, batch, lambda tensor: tensor[:count])


def repeated(value: Any, count: int, batch: int) -> Any:
    """Return `value` with the tensors that hold `count` samples repeated to `batch` of them."""
    times = -(-batch // count)
    return _mapped(
        value, count, lambda tensor: torch.cat([tensor] * times)[:batch] if times > 1 else tensor
    )


def _mapped(value: Any, length: int, change: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value) if value.dim() > 0 and len(value) == length else value
    if isinstance(value, dict):
        changed = {key: _mapped(item, length, change) for key, item in value.items()}
        return changed if type(value) is dict else type(value)(**changed)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(item, length, change) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, length, change) for item in value)
    return value
