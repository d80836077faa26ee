"""The exact integer split, and the exact step times of a whole range of batches, without a heap.

The greedy algorithm gives sample after sample to the device whose next time t_i(b_i + 1) is least;
for nondecreasing t_i that is the integer optimum. Its result is known from one number, the time of
the last sample given, so that number is found by water-filling and then by one partition.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from staves.steptime._filling import WaterFilling
from staves.steptime._lines import Array, Lines

Integers = NDArray[np.int64]


def greedy_split(lines: Lines, batch: int, minimums: Array, caps: Array) -> tuple[Integers, float]:
    """Return the greedy split of `batch` over all devices, and the time of its last sample.

    Args:
        lines: n devices.
        batch: samples, from sum(minimums) to sum(caps).
        minimums: what each device holds at first, shape (n,), whole numbers.
        caps: the most that each device holds, shape (n,), whole numbers or inf.

    Returns:
        local batches (n,), and the greatest t_i(b_i) of the samples beyond the minimums in seconds
        (-inf if there are none). Samples of one and the same time are dealt evenly.
    """
    spare = batch - _total(minimums)
    if spare == 0:
        return minimums.astype(np.int64), -np.inf
    filling = WaterFilling(lines, minimums, np.minimum(caps, minimums + spare))
    low, below, high, within = _bracket(filling, batch)
    while _total(within) - _total(below) > 4 * len(lines) and np.nextafter(low, high) < high:
        middle = low + (high - low) / 2
        middle = middle if low < middle < high else float(np.nextafter(low, high))
        held = filling.capacities(middle)
        if _total(held) >= batch:
            high, within = middle, held
        else:
            low, below = middle, held
    missing = batch - _total(below)
    if np.nextafter(low, high) >= high:  # every candidate takes exactly `high`
        return _deal(below, within - below, missing), high
    devices, times = _times_between(lines, below, within)
    last = float(np.partition(times, missing - 1)[missing - 1])
    base = below + np.bincount(devices[times < last], minlength=len(lines))
    ties = np.bincount(devices[times == last], minlength=len(lines)).astype(np.float64)
    return _deal(base, ties, batch - _total(base)), last


def next_times(
    lines: Lines, lowest: int, highest: int, minimums: Array, caps: Array
) -> NDArray[np.float64]:
    """Return the time of the last sample given, for every batch from `lowest` to `highest`.

    Arguments as for `greedy_split`; shape (highest - lowest + 1,), seconds, ascending; -inf where
    the batch is the sum of the minimums.
    """
    spare = highest - _total(minimums)
    filling = WaterFilling(lines, minimums, np.minimum(caps, minimums + spare))
    result = np.empty(highest - lowest + 1)
    _, first = greedy_split(lines, lowest, minimums, caps)
    _, last = greedy_split(lines, highest, minimums, caps)
    start = minimums if first == -np.inf else filling.capacities(first)
    done = min(_total(start) - lowest + 1, len(result))
    result[:done] = first
    result[done:] = last
    if last > first:
        stop = filling.capacities(float(np.nextafter(last, -np.inf)))
        _, times = _times_between(lines, start, np.maximum(start, stop))
        result[done : done + len(times)] = np.sort(times)
    return result


def _total(counts: Array) -> int:
    """Return the sum of whole numbers, exactly: floats skip some of them beyond 2^53."""
    total = float(counts.sum())
    return int(total) if total < 2**53 else sum(map(int, counts.tolist()))


def even_batches(batch: int, minimums: Array, caps: Array) -> Integers:
    """Return `batch` dealt evenly: as equal as minimums and caps allow, shape (n,), exactly."""
    low, high = 0, batch  # the greatest share for which the clipped shares fit into the batch
    caps = np.minimum(caps, batch)
    while low < high:
        middle = (low + high + 1) // 2
        if _total(np.clip(middle, minimums, caps)) <= batch:
            low = middle
        else:
            high = middle - 1
    shares = np.clip(low, minimums, caps)
    more = np.flatnonzero(np.clip(low + 1, minimums, caps) > shares)
    shares[more[: batch - _total(shares)]] += 1
    whole: Integers = shares.astype(np.int64)
    return whole


def _bracket(filling: WaterFilling, batch: int) -> tuple[float, Array, float, Array]:
    """Return a level that holds fewer than `batch` whole samples, and one that holds as many.

    Between the two lie at most about 2 n samples (floats allowing): what the devices hold in whole
    samples is less by under one a device than what they hold in fractions.

    Returns:
        lower level, its capacities (n,), upper level, its capacities (n,).
    """
    level, jumps = filling.level(batch)
    held = filling.capacities(level)
    if _total(held) < batch:
        low, below = level, held
        total = min(batch + len(held), float(filling.caps.sum()))
        high, _ = filling.level(total)
        within = filling.capacities(high)
        step = float(np.spacing(high))
        while _total(within) < batch:  # rounding only
            high, step = high + step, step * 2
            within = filling.capacities(high)
        return low, below, high, within
    high, within = level, held
    low = float(np.nextafter(level, -np.inf))
    step = 0.0 if jumps else 4 * float(np.spacing(level))
    while True:
        low, step = low - step, max(step * 2, float(np.spacing(level)))
        below = filling.capacities(low)
        if _total(below) < batch:
            return low, below, high, within


def _times_between(
    lines: Lines, below: Array, within: Array
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return device and time of every sample after `below` up to `within`, both (n,)."""
    counts = (within - below).astype(np.int64)
    devices = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    ordinals = np.arange(1, len(devices) + 1) - before[devices]
    return devices, lines.formula(below[devices] + ordinals, devices)


def _deal(base: Array, room: Array, samples: int) -> Integers:
    """Return `base` with `samples` more, dealt evenly where there is `room`, both (n,)."""
    return base.astype(np.int64) + even_batches(samples, np.zeros_like(room), room)
