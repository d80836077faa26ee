"""Goodput, and the batch at which it is greatest (Pollux, OSDI '21; Cannikin, Middleware '24)."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from staves.convergence._efficiency import efficiency
from staves.errors import InputError
from staves.steptime import Split, StepTimeModel, Sweep, Tangent, integer_split

_SWEEP = 1 << 17  # batches enumerated at once, without asking for bounds
_LEAF = 1 << 16
_SLACK = 1 + 1e-12  # bounds come from fractions, and their rounding is not that of the truth


@dataclass(frozen=True)
class BestBatch:
    """The batch of greatest goodput.

    Attributes:
        batch: samples a step.
        goodput: samples a second times statistical efficiency, at `split`.
        split: its optimal split.
    """

    batch: int
    goodput: float
    split: Split


def goodput(
    model: StepTimeModel,
    batch: int,
    noise_scale: float,
    reference: int,
    *,
    allow_leave_out: bool = False,
) -> float:
    """Return samples a second times statistical efficiency, at the optimal split of `batch`.

    Args:
        model: step times.
        batch: samples a step.
        noise_scale: phi in samples, possibly inf.
        reference: the batch at which a sample's efficiency is 1.
        allow_leave_out: the split may leave devices out.

    Raises:
        InputError: as `integer_split` and `efficiency`, or the model's step takes no time.
    """
    split = integer_split(model, batch, allow_leave_out=allow_leave_out)
    return _goodput_of(split, noise_scale, reference)


def best_batch(
    model: StepTimeModel,
    noise_scale: float,
    reference: int,
    max_batch: int,
    *,
    allow_leave_out: bool = False,
) -> BestBatch:
    """Return the whole batch of greatest goodput, exactly, from `reference` to `max_batch`.

    Every batch counts at its own integer optimum, up to the sum of the devices' caps. Ranges too
    large to enumerate are narrowed by bounds first: nothing is sampled. Of equal batches the
    smallest.

    Args:
        model: step times.
        noise_scale: phi in samples, possibly inf.
        reference: the smallest batch, at which a sample's efficiency is 1.
        max_batch: the greatest batch.
        allow_leave_out: each split may leave devices out.

    Raises:
        InputError: no batch lies in that range, a negative noise scale, or steps without time.
    """
    sweep = Sweep(model, allow_leave_out=allow_leave_out)
    efficiency(noise_scale, max_batch, reference)  # refuses what is no noise scale or batch
    lowest = max(math.ceil(reference), sweep.lowest)
    highest = math.floor(min(max_batch, sweep.highest))
    if lowest > highest:
        raise InputError(
            f"no batch to choose: from {lowest} (reference or sum of min_batch) "
            f"to {highest} (max batch or sum of max_batch)",
            hint="raise the max batch or lower the reference",
        )
    search = _Search(sweep, noise_scale, reference)
    batch = search.best(lowest, highest)
    split = integer_split(model, batch, allow_leave_out=allow_leave_out)
    return BestBatch(batch, _goodput_of(split, noise_scale, reference), split)


class _Search:
    """The best of a range of batches, by enumeration of what bounds cannot rule out."""

    def __init__(self, sweep: Sweep, noise_scale: float, reference: int) -> None:
        self._sweep, self._noise_scale, self._reference = sweep, noise_scale, reference
        self._best, self._batch = -math.inf, -1
        self._highest = 0
        self._tangents: dict[int, Tangent] = {}

    def best(self, lowest: int, highest: int) -> int:
        """Return the best batch from `lowest` to `highest`."""
        if highest - lowest < _SWEEP:
            self._enumerate(lowest, highest)
        else:
            self._branch_and_bound(lowest, highest)
        if self._batch < 0:
            raise InputError(
                f"no batch from {lowest} to {highest} has a split",
                hint="their min_batch and max_batch rule it out: lower min_batch",
            )
        return self._batch

    def _enumerate(self, lowest: int, highest: int) -> None:
        """Compare every batch from `lowest` to `highest` with the best so far."""
        seconds, exact = self._sweep.step_seconds(lowest, highest)
        batches = np.arange(lowest, highest + 1, dtype=np.float64)
        values = _values(batches, seconds, self._noise_scale, self._reference)
        if exact.any():
            place = int(np.where(exact, values, -1.0).argmax())
            self._keep(lowest + place, float(values[place]))
        doubtful = np.flatnonzero(~exact)  # here the value is only an upper bound
        for place in doubtful[np.argsort(-values[doubtful], kind="stable")]:
            if values[place] < self._best:
                break
            batch = lowest + int(place)
            step = np.array([self._sweep.exact_step_seconds(batch)])
            value = _values(batches[place : place + 1], step, self._noise_scale, self._reference)
            self._keep(batch, float(value[0]))

    def _keep(self, batch: int, value: float) -> None:
        first = value == self._best and batch < self._batch
        if value > 0 and (value > self._best or first):
            self._best, self._batch = value, batch

    def _branch_and_bound(self, lowest: int, highest: int) -> None:
        """Enumerate the most promising ranges first, until no other can hold a better batch."""
        self._highest = highest
        ranges = [(-self._bound(lowest, highest), lowest, highest)]
        while ranges:
            upper, first, last = heapq.heappop(ranges)
            if -upper <= self._best:
                break
            if last - first < _LEAF:
                self._enumerate(first, last)
                continue
            # By ratio while it is large: what a batch costs changes with its logarithm.
            middle = math.isqrt(first * last) if last > 4 * first else (first + last) // 2
            for a, b in ((first, middle), (middle + 1, last)):
                heapq.heappush(ranges, (-self._bound(a, b), a, b))

    def _bound(self, first: int, last: int) -> float:
        """Return a bound of the goodput of all batches from `first` to `last`.

        On a line T = u + v B goodput peaks at B = sqrt(phi u / v).
        """
        phi = self._noise_scale
        near, far = self._tangent(first), self._tangent(last)
        if near.active != far.active:  # T rises with the batch, and so does B / (phi + B)
            return self._value(last, near.seconds)
        start = near.seconds - near.slope * first
        if start <= 0:
            peak = float(first)
        elif near.slope == 0 or math.isinf(phi):
            peak = float(last)
        else:
            peak = min(max(math.sqrt(phi * (start / near.slope)), first), last)
        return self._value(peak, near.seconds + near.slope * (peak - first))

    def _tangent(self, batch: int) -> Tangent:
        if batch not in self._tangents:
            self._tangents[batch] = self._sweep.tangent(batch, self._highest)
        return self._tangents[batch]

    def _value(self, batch: float, seconds: float) -> float:
        if seconds <= 0:
            return math.inf
        worth = efficiency(self._noise_scale, batch, self._reference)
        return batch / seconds * worth * _SLACK


def _values(
    batches: np.ndarray[tuple[int], np.dtype[np.float64]],
    seconds: np.ndarray[tuple[int], np.dtype[np.float64]],
    noise_scale: float,
    reference: int,
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if not np.all(seconds > 0):
        raise InputError("the model's step takes no time: goodput is infinite")
    values = batches / seconds
    if math.isfinite(noise_scale):
        values *= (noise_scale + reference) / (noise_scale + batches)
    return values


def _goodput_of(split: Split, noise_scale: float, reference: int) -> float:
    worth = efficiency(noise_scale, split.batch, reference)
    if split.step_seconds <= 0:
        raise InputError("the model's step takes no time: goodput is infinite")
    return split.batch / split.step_seconds * worth
