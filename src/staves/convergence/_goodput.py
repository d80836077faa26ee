"""Goodput, and the batch at which it is greatest (Pollux, OSDI '21; Cannikin, Middleware '24)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from staves.convergence._efficiency import efficiency
from staves.convergence._search import Search, require_time
from staves.errors import InputError
from staves.steptime import Split, StepTimeModel, Sweep, integer_split


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
        InputError: as `integer_split` and `efficiency`, or the model's step takes (next to) no
            time.
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

    Every batch counts at its own integer optimum, up to the sum of the devices' caps, and goodputs
    are compared without rounding. Of equal batches the smallest.

    The work grows with the square root of the range: within a range of one step time only its end
    can be best, and other ranges are narrowed by bounds until what they leave open is enumerated,
    the batches within about sqrt(n B) of the best one. There is an end to it, 2^23 batches: should
    more be left (B beyond 10^12, or a goodput that hardly depends on the batch), the best so far
    counts, ranges of the highest bounds first.

    Args:
        model: step times.
        noise_scale: phi in samples, possibly inf.
        reference: the smallest batch, at which a sample's efficiency is 1.
        max_batch: the greatest batch.
        allow_leave_out: each split may leave devices out.

    Raises:
        InputError: no batch lies in that range, a negative noise scale, or steps of (next to) no
            time.
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
    search = Search(sweep, noise_scale, reference)
    batch = search.best(lowest, highest)
    split = integer_split(model, batch, allow_leave_out=allow_leave_out)
    return BestBatch(batch, _goodput_of(split, noise_scale, reference), split)


def _goodput_of(split: Split, noise_scale: float, reference: int) -> float:
    worth = efficiency(noise_scale, split.batch, reference)
    require_time(split.step_seconds)
    return split.batch / split.step_seconds * worth
