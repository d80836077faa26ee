"""Water-filling: how many samples the devices hold together within a given time, and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from staves.steptime._lines import Array, Lines

_NEWTON_STEPS = 200


class WaterFilling:
    """Devices that hold at least `minimums` samples, and more as the level (seconds) rises.

    Below its switch-on level theta_i = t_i(minimum) a device holds its minimum; above, as much as
    fits within the level, up to its cap.

    Args:
        lines: the devices, n of them.
        minimums: shape (n,), whole numbers.
        caps: shape (n,), whole and finite numbers, none below its minimum.
    """

    def __init__(self, lines: Lines, minimums: Array, caps: Array) -> None:
        self.lines, self.minimums, self.caps = lines, minimums, caps
        self.switch_on = lines.formula(minimums)

    def batches(self, level: float, *, before_switch_on: bool = False) -> Array:
        """Return what each device holds at `level`, shape (n,), not rounded.

        Args:
            level: seconds.
            before_switch_on: leave devices that switch on at this very level at their minimum.
        """
        on = self.switch_on < level if before_switch_on else self.switch_on <= level
        return self._clipped(self.lines.inverse(level), on)

    def level(self, total: float) -> tuple[float, bool]:
        """Return the least level (seconds) at which the devices hold `total` samples.

        `total` lies above the sum of the minimums, and not above that of the caps.

        Returns:
            the level, and whether it is a switch-on level at which the sum jumps over `total`
            (flat pieces: the device could hold many samples in no more time).
        """
        starts = np.sort(self.switch_on)
        first, last = 0, len(starts)  # the first start at which the sum reaches `total`
        if self.batches(float(starts[-1])).sum() < total:
            first = last
        while first < last:
            middle = (first + last) // 2
            if self.batches(float(starts[middle])).sum() < total:
                first = middle + 1
            else:
                last = middle
        if first == 0:
            return float(starts[0]), True
        ceiling = float(starts[first]) if first < len(starts) else np.inf
        level = self._newton(float(starts[first - 1]), total, ceiling)
        return (ceiling, True) if level >= ceiling else (level, False)

    def _newton(self, level: float, total: float, ceiling: float) -> float:
        """Find the level from the left, with no device switching on before `ceiling`.

        There the sum is concave and piecewise linear: a tangent never overshoots, and the gap
        times the slope falls at least fourfold a step.
        """
        on = self.switch_on <= level
        for _ in range(_NEWTON_STEPS):
            inverse, slope = self.lines.inverse_and_slope(level)
            gap = total - float(self._clipped(inverse, on).sum())
            steepness = float(slope[on & (inverse < self.caps)].sum())
            if gap <= 0:
                return level
            following = level + gap / steepness if steepness > 0 else np.inf
            if following >= ceiling:
                return ceiling
            if following <= level or not np.isfinite(following):
                return level
            level = following
        return level

    def capacities(self, level: float) -> Array:
        """Return the most whole samples of each device within `level`, shape (n,), exactly.

        The largest k from minimum to cap with t_i(k) <= level by `Lines.formula`, and the minimum
        where there is none.
        """
        k: Array = np.floor(self.batches(level))
        following = np.minimum(k + 1, self.caps)
        rises = (following > k) & (self.lines.formula(following) <= level)
        falls = (k > self.minimums) & (self.lines.formula(k) > level)
        wrong = np.flatnonzero(rises | falls)
        if len(wrong):
            k[wrong] = self._searched(wrong, k[wrong], level)
        return k

    def _searched(self, index: NDArray[np.intp], guess: Array, level: float) -> Array:
        """Return the capacities of the devices `index` by galloping away from `guess`.

        A level an ulp off is one sample off, or many where samples cost less than the time's ulp.
        """
        floor, cap = self.minimums[index], self.caps[index]
        low, high, step = guess.copy(), guess + 1, np.ones_like(guess)
        while True:  # low fits, or is the minimum
            over = (low > floor) & (self.lines.formula(low, index) > level)
            if not over.any():
                break
            high = np.where(over, low, high)
            low = np.where(over, np.maximum(low - step, floor), low)
            step = np.where(over, step * 2, step)
        step[:] = 1
        while True:  # high does not fit, or is above the cap
            fits = self.lines.formula(np.minimum(high, cap), index) <= level
            under = (high <= cap) & (low < cap) & fits  # at 2^53, cap + 1 is no more than cap
            if not under.any():
                break
            low = np.where(under, high, low)
            high = np.where(under, np.minimum(high + step, cap + 1), high)
            step = np.where(under, step * 2, step)
        while np.any(high - low > 1):
            middle = np.floor((low + high) / 2)
            fits = (middle <= low) | (self.lines.formula(middle, index) <= level)
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return low

    def _clipped(self, inverse: Array, on: NDArray[np.bool_]) -> Array:
        inside = np.minimum(np.maximum(inverse, self.minimums), self.caps)
        return np.where(on, inside, self.minimums)
