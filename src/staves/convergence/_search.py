"""The search for the best batch: exact, by pieces of one step time and by bounds on the others."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError
from staves.steptime import Sweep, Tangent

_SWEEP = 1 << 17  # batches enumerated at once, without asking for bounds
_LEAF = 1 << 16
_SLACK = 1 + 1e-12  # bounds come from fractions, and their rounding is not that of the truth
_NEAR = 1e-14  # floats of goodput closer than this (relative) may stand in the wrong order
_MOST_TIED = 1024  # batches so alike that only exact fractions tell them apart

# The work allowed, in batches enumerated, and what other steps cost in them.
_ALLOWANCE = 1 << 23
_POINT = 512
_SUBSET_SEARCH = 1024

_SHORTEST = 1e-290  # seconds; samples a second overflow below

_Floats: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class _Point:
    """What is known of one batch: a lower bound of T that never falls, T itself, and a tangent."""

    lower: float
    seconds: float
    tangent: Tangent


class Search:
    """The best of a range of batches.

    With T the step time and phi the noise scale, goodput is B / (T (phi + B)) times a constant.
    T never falls with B (but for a few batches below `sweep.monotone_from`), so that among batches
    of one T the largest is best, and the smallest where phi is 0 and all of them are equal.
    """

    def __init__(self, sweep: Sweep, noise_scale: float, reference: int) -> None:
        self._sweep, self._noise_scale, self._reference = sweep, noise_scale, reference
        self._best, self._batch, self._exact = -math.inf, -1, Fraction(-1)
        self._highest = 0
        self._allowance = _ALLOWANCE
        self._points: dict[int, _Point] = {}

    def best(self, lowest: int, highest: int) -> int:
        """Return the best batch from `lowest` to `highest`."""
        if highest - lowest < _SWEEP:
            self._enumerate(lowest, highest)
        else:
            start = min(max(lowest, self._sweep.monotone_from), highest)
            if start > lowest:
                self._enumerate(lowest, start - 1)
            self._branch_and_bound(start, highest)
        if self._batch < 0:
            raise InputError(
                f"no batch from {lowest} to {highest} has a split"
                + ("" if self._allowance > 0 else ", of those that were tried"),
                hint="their min_batch and max_batch rule it out: lower min_batch",
            )
        return self._batch

    def _enumerate(self, lowest: int, highest: int) -> None:
        """Compare every batch from `lowest` to `highest` with the best so far."""
        self._allowance -= highest - lowest + 1
        seconds, exact = self._sweep.step_seconds(lowest, highest)
        require_time(float(seconds.min()))
        batches = np.arange(lowest, highest + 1, dtype=np.float64)
        values = self._values(batches, seconds)
        for place in self._candidates(np.where(exact, values, -1.0), batches, seconds):
            self._keep(lowest + place, float(seconds[place]))
        doubtful = np.flatnonzero(~exact)  # here the value is only an upper bound
        for place in doubtful[np.argsort(-values[doubtful], kind="stable")]:
            if values[place] * _SLACK < self._best or self._allowance <= 0:
                break
            self._allowance -= _SUBSET_SEARCH
            batch = lowest + int(place)
            self._keep(batch, self._sweep.exact_step_seconds(batch))

    def _candidates(
        self,
        values: NDArray[np.float64],
        batches: NDArray[np.float64],
        seconds: NDArray[np.float64],
    ) -> list[int]:
        """Return the places of all that may be best, in ascending order."""
        top = float(values.max())
        if top <= 0 or top * _SLACK < self._best:
            return []
        places = np.flatnonzero(values >= top * (1 - _NEAR))
        # Of neighbours of one step time only one can be best.
        change = np.flatnonzero(np.diff(seconds[places]))
        if self._noise_scale > 0:
            places = places[np.append(change, len(places) - 1)]
        else:
            places = places[np.append(0, change + 1)]
        if len(places) > _MOST_TIED:  # numbers of 64 bits tell most of them apart
            finer = self._values(
                batches[places].astype(np.longdouble), seconds[places].astype(np.longdouble)
            )
            margin = 8 * np.finfo(np.longdouble).eps
            places = places[finer >= finer.max() * (1 - margin)][:_MOST_TIED]
        return [int(place) for place in places]

    def _keep(self, batch: int, seconds: float) -> None:
        """Compare one batch with the best so far, exactly where floats cannot."""
        if math.isinf(seconds):
            return
        value = self._value(batch, seconds)
        if value < self._best * (1 - _NEAR):
            return
        exact = Fraction(batch) / Fraction(seconds)
        if math.isfinite(self._noise_scale):
            exact /= Fraction(self._noise_scale) + batch
        if exact > self._exact or (exact == self._exact and batch < self._batch):
            self._best, self._batch, self._exact = value, batch, exact

    def _branch_and_bound(self, lowest: int, highest: int) -> None:
        """Look into the most promising ranges first, until no other can hold a better batch."""
        self._highest = highest
        ranges: list[tuple[float, int, int]] = []
        self._add(ranges, lowest, highest)
        while ranges and self._allowance > 0:
            upper, first, last = heapq.heappop(ranges)
            if -upper < self._best:
                break
            if last - first < _LEAF:
                self._enumerate(first, last)
                continue
            # By ratio while it is large: what a batch costs changes with its logarithm.
            middle = math.isqrt(first * last) if last > 4 * first else (first + last) // 2
            for a, b in ((first, middle), (middle + 1, last)):
                self._add(ranges, a, b)

    def _add(self, ranges: list[tuple[float, int, int]], first: int, last: int) -> None:
        """Settle a range of one step time at once, and leave any other to be looked into."""
        near, far = self._point(first), self._point(last)
        only = far if self._noise_scale > 0 else near
        if only.seconds == (near if only is far else far).lower == only.lower:
            return  # `only` has been compared, and no other can be better
        if self._noise_scale == 0 and near.seconds == near.lower:
            return  # all others take as long or longer
        heapq.heappush(ranges, (-self._bound(first, last), first, last))

    def _bound(self, first: int, last: int) -> float:
        """Return a bound of the goodput of all batches from `first` to `last`.

        On a line T = u + v B goodput peaks at B = sqrt(phi u / v).
        """
        phi = self._noise_scale
        near, far = self._point(first).tangent, self._point(last).tangent
        # T rises with the batch, and so does B / (phi + B).
        simple = self._value(last, self._point(first).lower) * _SLACK
        if near.active != far.active or near.seconds <= 0:
            return simple
        start = near.seconds - near.slope * first
        if start <= 0:
            peak = float(first)
        elif near.slope == 0 or math.isinf(phi):
            peak = float(last)
        else:
            peak = min(max(math.sqrt(phi * (start / near.slope)), first), last)
        on_tangent = self._value(peak, near.seconds + near.slope * (peak - first)) * _SLACK
        return min(simple, on_tangent)

    def _point(self, batch: int) -> _Point:
        """Return what is known of one batch; compares it with the best so far."""
        if batch not in self._points:
            self._allowance -= _POINT
            lower, exact = self._sweep.step_seconds(batch, batch)
            require_time(float(lower[0]))
            seconds = float(lower[0])
            if not exact[0]:
                self._allowance -= _SUBSET_SEARCH
                seconds = self._sweep.exact_step_seconds(batch)
            self._keep(batch, seconds)
            tangent = self._sweep.tangent(batch, self._highest)
            self._points[batch] = _Point(float(lower[0]), seconds, tangent)
        return self._points[batch]

    def _value(self, batch: float, seconds: float) -> float:
        """Return the goodput of one batch."""
        value = batch / seconds
        if math.isfinite(self._noise_scale):
            value *= (self._noise_scale + self._reference) / (self._noise_scale + batch)
        return value

    def _values(self, batches: _Floats, seconds: _Floats) -> _Floats:
        """Return the goodput of many batches, in the precision of its arguments."""
        values: _Floats = batches / seconds
        if math.isfinite(self._noise_scale):
            values *= (self._noise_scale + self._reference) / (self._noise_scale + batches)
        return values


def require_time(seconds: float) -> None:
    """Refuse a step so short that samples a second are infinite."""
    if not seconds > _SHORTEST:
        raise InputError(
            "the model's step takes no time: goodput is infinite",
            hint="give a device or the communication a time",
        )
