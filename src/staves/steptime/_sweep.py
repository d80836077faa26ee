"""Step times of a whole range of batches at once, each at its exact integer optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError
from staves.steptime._filling import WaterFilling
from staves.steptime._integer import next_times
from staves.steptime._leave_out import relaxed, subset_split
from staves.steptime._lines import Lines
from staves.steptime._model import StepTimeModel
from staves.steptime._split import check_batch, check_whole, costly_rests


def integer_step_seconds(
    model: StepTimeModel, lowest: int, highest: int, *, allow_leave_out: bool = False
) -> NDArray[np.float64]:
    """Return the step time of the integer optimum of every batch from `lowest` to `highest`.

    One sort of the samples' times gives them all: what `integer_split` returns for each, bit for
    bit. (Where devices have a minimum and may be left out, batches below the sum of the minimums
    may need their own search.)

    Returns:
        seconds, shape (highest - lowest + 1,); inf where no subset holds the batch.

    Raises:
        InputError: a bound is not a positive whole number, or outside of what the devices can hold.
    """
    sweep = Sweep(model, allow_leave_out=allow_leave_out)
    seconds, exact = sweep.step_seconds(lowest, highest)
    for place in np.flatnonzero(~exact):
        seconds[place] = sweep.exact_step_seconds(lowest + int(place))
    return seconds


@dataclass(frozen=True)
class Tangent:
    """A lower bound of the step time: T(batch) >= seconds + slope (batch - the batch asked for).

    It holds beyond that batch up to any batch with as many `active` devices, and without the slope
    for all: in between no device switches on, and so the fractional optimum is convex.
    """

    seconds: float
    slope: float
    active: int


class Sweep:
    """A model, asked for the step times of ranges of batches; shared by the searches over them."""

    def __init__(self, model: StepTimeModel, *, allow_leave_out: bool) -> None:
        self.model, self.allow_leave_out = model, allow_leave_out
        lines = model.lines
        self._minimums = np.zeros(len(lines)) if allow_leave_out else lines.minimums
        self._lines = relaxed(lines) if allow_leave_out and lines.minimums.any() else lines
        self._floor = -math.inf
        self._costly = np.zeros(0)
        if not allow_leave_out:
            self._floor, self._costly = _floor(lines)

    @property
    def lowest(self) -> int:
        """The least batch that may have a split."""
        return max(1, int(self._minimums.sum()))

    @property
    def highest(self) -> float:
        """The greatest batch that may have a split, or inf."""
        return float(self._lines.caps.sum())

    @property
    def monotone_from(self) -> int:
        """The batch from which on the lower bound of T never falls.

        Below, a batch leaves devices without a sample, whose rest may take longer (`idle`).
        """
        return max(self.lowest, int(self._minimums.sum()) + len(self._costly))

    def step_seconds(
        self, lowest: int, highest: int
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return a lower bound of T for each batch from `lowest` to `highest`, and if it is exact.

        It is, except where minimums of devices that may be left out do not fit into the batch.
        """
        for batch in (lowest, highest):
            check_whole(batch)
            if not self.allow_leave_out:
                check_batch(self._lines, batch)
        if lowest > highest:
            raise InputError(f"no batch lies between {lowest} and {highest}")
        if not self.lowest <= lowest <= highest <= self.highest:
            raise InputError(f"batch {highest} is above the sum of max_batch, {self.highest:.0f}")
        seconds = next_times(self._lines, lowest, highest, self._minimums, self._lines.caps)
        batches = np.arange(lowest, highest + 1)
        if self.allow_leave_out:
            return seconds, self._minimums_fit(batches, seconds)
        np.maximum(seconds, self._floor, out=seconds)
        held = int(self._minimums.sum()) + len(self._costly)  # where no costly rest is taken
        few = batches < held
        if few.any():
            must_rest = held - batches[few]
            seconds[few] = np.maximum(seconds[few], self._costly[must_rest - 1])
        return seconds, np.ones(len(seconds), dtype=bool)

    def exact_step_seconds(self, batch: int) -> float:
        """Return T of the best subset for one batch; inf where no subset holds it."""
        try:
            local, out = subset_split(self.model.lines, batch)
        except InputError:
            return math.inf
        return self.model.step_seconds(local, tuple(np.flatnonzero(out).tolist()))

    def tangent(self, batch: int, highest: int) -> Tangent:
        """Return a lower bound of T that touches the fractional optimum at `batch`.

        Args:
            batch: samples, from `lowest`.
            highest: the largest batch of interest.
        """
        caps = np.minimum(self._lines.caps, np.maximum(self._minimums, highest))
        filling = WaterFilling(self._lines, self._minimums, caps)
        if batch <= self._minimums.sum():
            return Tangent(
                max(0.0, self._floor), 0.0, int((filling.switch_on <= self._floor).sum())
            )
        level, jumps = filling.level(batch)
        active = int((filling.switch_on <= level).sum())
        if level <= self._floor or jumps:
            return Tangent(max(level, self._floor), 0.0, active)
        inverse, slope = self._lines.inverse_and_slope(level)
        steepness = float(slope[(filling.switch_on <= level) & (inverse < caps)].sum())
        return Tangent(level, 1 / steepness if steepness > 0 else 0.0, active)

    def _minimums_fit(
        self, batches: NDArray[np.int64], seconds: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Say where the minimums of all devices usable within `seconds` fit into the batch."""
        lines = self.model.lines
        starts = lines.formula(lines.minimums)
        order = np.argsort(starts)
        together = np.concatenate([[0.0], np.cumsum(lines.minimums[order])])
        usable = np.searchsorted(starts[order], seconds, side="right")
        fits: NDArray[np.bool_] = together[usable] <= batches
        return fits


def _floor(lines: Lines) -> tuple[float, NDArray[np.float64]]:
    """Return the time below which no split gets, and the times of costly rests, ascending."""
    costly = costly_rests(lines)
    least = lines.seconds(np.where(costly, 1.0, lines.minimums))
    return float(least.max()), np.sort(lines.idle_seconds[costly])
