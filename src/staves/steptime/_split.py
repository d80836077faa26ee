"""The optimal split of a global batch: fractional, in whole samples, and the even one beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError, quoted
from staves.steptime._filling import WaterFilling
from staves.steptime._integer import Integers, even_batches, greedy_split
from staves.steptime._leave_out import subset_split
from staves.steptime._lines import Array, Lines
from staves.steptime._model import LARGEST_BATCH, StepTimeModel


@dataclass(frozen=True)
class FractionalSplit:
    """The optimum over real local batches: a lower bound of every split in whole samples.

    Attributes:
        batch: global batch in samples.
        local_batches: samples of each device, shape (n,); they add up to `batch`.
        step_seconds: T at this split.
    """

    batch: float
    local_batches: tuple[float, ...]
    step_seconds: float


@dataclass(frozen=True)
class Split:
    """A split in whole samples.

    Attributes:
        batch: global batch in samples.
        local_batches: samples of each device, shape (n,); they add up to `batch` exactly.
        step_seconds: T at this split, over the devices that take part.
        left_out: indices of the devices that do not take part.
    """

    batch: int
    local_batches: tuple[int, ...]
    step_seconds: float
    left_out: tuple[int, ...] = ()


def optimal_split(model: StepTimeModel, batch: float) -> FractionalSplit:
    """Return the split of `batch` over all devices, in fractions, that minimises the step time.

    Water-filling: the least level at which the devices hold the batch together. Equal to the linear
    programme min T subject to t_i(b_i) <= T (Cannikin's OptPerf). Where `idle` exceeds t_i(0) by
    the lines, a device may hold next to nothing, and its time is that limit.

    Raises:
        InputError: `batch` is not positive and finite, or outside of the sums of min_batch and
            max_batch.
    """
    lines = model.lines
    check_batch(lines, batch)
    caps = np.minimum(lines.caps, np.maximum(lines.minimums, math.ceil(batch)))
    local = _fractional(WaterFilling(lines, lines.minimums, caps), batch)
    seconds = lines.formula(local)
    if lines.has_idle:  # next to nothing may cost less than nothing, where a sample has room
        seconds = np.where(
            lines.caps > 0, np.fmin(seconds, lines.seconds(local)), lines.seconds(local)
        )
    return FractionalSplit(float(batch), tuple(local.tolist()), float(seconds.max()))


def integer_split(model: StepTimeModel, batch: int, *, allow_leave_out: bool = False) -> Split:
    """Return the split of `batch` in whole samples that minimises the step time, exactly.

    Args:
        model: n devices.
        batch: samples a step.
        allow_leave_out: choose the best subset of the devices, too. A device that holds nothing
            and delays nobody stays in.

    Raises:
        InputError: `batch` is not a positive whole number, or no split holds it.
    """
    lines = model.lines
    check_whole(batch)
    if allow_leave_out:
        local, out = subset_split(lines, batch)
        left_out = tuple(np.flatnonzero(out).tolist())
    else:
        check_batch(lines, batch)
        local, left_out = _all_devices(lines, batch), ()
    local_batches = tuple(local.tolist())
    return Split(int(batch), local_batches, model.step_seconds(local, left_out), left_out)


def even_split(model: StepTimeModel, batch: int) -> Split:
    """Return `batch` dealt evenly: B/n each, clipped to minimums and caps, the rest spread evenly.

    Raises:
        InputError: as `integer_split`.
    """
    lines = model.lines
    check_whole(batch)
    check_batch(lines, batch)
    local = even_batches(batch, lines.minimums, lines.caps)
    return Split(int(batch), tuple(local.tolist()), model.step_seconds(local))


def costly_rests(lines: Lines) -> NDArray[np.bool_]:
    """Say which devices need longer for no sample (`idle`) than for one, shape (n,)."""
    may_rest = (lines.minimums == 0) & (lines.caps >= 1)
    one = lines.formula(np.ones(len(lines)))
    costly: NDArray[np.bool_] = may_rest & (np.nan_to_num(lines.idle_seconds, nan=-np.inf) > one)
    return costly


def _all_devices(lines: Lines, batch: int) -> Integers:
    """Return the integer optimum over all devices, shape (n,).

    Within a level L, device i holds any number from a least to a greatest one, and both only widen
    as L grows: the least is 1 for a device whose rest takes longer than L but whose first sample
    does not. The optimum is the least level at which the sums of the two enclose the batch.
    """
    local, last = greedy_split(lines, batch, lines.minimums, lines.caps)
    costly = costly_rests(lines) if lines.has_idle else np.zeros(len(lines), dtype=bool)
    if not np.any(costly & (local == 0)):
        return local
    held = np.where(costly, 1.0, lines.minimums)
    level = max(last, float(lines.seconds(held).max()))
    resting = np.sort(lines.idle_seconds[costly])
    must_rest = int(held.sum()) - batch
    if must_rest > 0:
        level = max(level, float(resting[must_rest - 1]))
    forced = costly & (lines.idle_seconds > level)
    local, _ = greedy_split(lines, batch, np.where(forced, 1.0, lines.minimums), lines.caps)
    return local


def _fractional(filling: WaterFilling, batch: float) -> Array:
    """Return what each device holds when they hold `batch` together, shape (n,)."""
    minimums = filling.minimums
    if batch <= minimums.sum():
        return minimums.copy()
    level, jumps = filling.level(batch)
    local = filling.batches(level, before_switch_on=jumps)
    if jumps:  # devices that switch on here share what is missing, each within its flat piece
        room = filling.batches(level) - local
        missing = batch - float(local.sum())
        together = float(room.sum())
        return local + room * min(1.0, missing / together) if together > 0 else local
    free = (local > minimums) & (local < filling.caps)
    share = np.where(free, local, 0.0)
    if share.any():  # rounding only
        local += share * ((batch - float(local.sum())) / float(share.sum()))
    return np.clip(local, minimums, filling.caps)


def check_whole(batch: int) -> None:
    """Refuse what is not a positive whole number that floats hold exactly."""
    if isinstance(batch, bool) or not isinstance(batch, (int, np.integer)):
        raise InputError(f"batch {quoted(batch)} is not a whole number")
    if not 1 <= batch <= LARGEST_BATCH:
        raise InputError(
            f"batch must be from 1 to 2^53, but is {quoted(batch)}", hint="choose another batch"
        )


def check_batch(lines: Lines, batch: float) -> None:
    """Refuse a batch that the devices together cannot hold."""
    if not (batch > 0 and math.isfinite(batch)):
        raise InputError(f"batch must be positive and finite, but is {batch}")
    if batch > lines.caps.sum():
        raise InputError(
            f"batch {batch} is above the sum of max_batch, {lines.caps.sum():.0f}",
            hint="lower the batch or raise max_batch",
        )
    if batch < lines.minimums.sum():
        raise InputError(
            f"batch {batch} is below the sum of min_batch, {lines.minimums.sum():.0f}",
            hint="raise the batch, lower min_batch, or leave devices out",
        )
