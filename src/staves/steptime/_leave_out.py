"""Which devices to leave out: a device that holds nothing need not hold up the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from staves.errors import InputError
from staves.steptime._filling import WaterFilling
from staves.steptime._integer import Integers, greedy_split
from staves.steptime._lines import Array, Lines

Flags = NDArray[np.bool_]


def relaxed(lines: Lines) -> Lines:
    """Return the devices without minimums, but with no sample faster than the minimum's time.

    A device in use within a level L holds from its minimum to its capacity; this one holds from 0
    to the same capacity. So its optimum bounds that of the best subset from below, and is equal to
    it as long as the minimums of all devices usable within L fit into the batch.
    """
    bottom = np.where(lines.minimums > 0, lines.formula(lines.minimums), 0.0)
    return lines.with_bottom(bottom)


def subset_split(lines: Lines, batch: int) -> tuple[Integers, Flags]:
    """Return the split of least step time over all subsets of the devices, and who is left out.

    Raises:
        InputError: no subset can hold `batch`.
    """
    nothing = np.zeros(len(lines))
    if float(np.minimum(lines.caps, batch).sum()) < batch:
        raise InputError(
            f"batch {batch} is above the sum of max_batch, {lines.caps.sum():.0f}",
            hint="lower the batch or raise max_batch",
        )
    if not lines.minimums.any():
        local, _ = greedy_split(lines, batch, nothing, lines.caps)
        return local, _left_out(lines, local)
    _, level = greedy_split(relaxed(lines), batch, nothing, lines.caps)
    subset = _subset_within(lines, batch, level)
    if subset is None:
        level, subset = _least_level(lines, batch, level)
    minimums = np.where(subset, lines.minimums, 0)
    # Devices without a minimum need no decision: they may hold nothing, and then they do not count.
    caps = np.where(subset | (lines.minimums == 0), lines.caps, 0)
    local, _ = greedy_split(lines, batch, minimums, caps)
    return local, _left_out(lines, local)


def _left_out(lines: Lines, local: Integers) -> Flags:
    """Say who is left out: devices that hold nothing, and would be slower or must hold some."""
    seconds = lines.seconds(local.astype(np.float64))
    step = seconds[local > 0].max()
    out: Flags = (local == 0) & ((seconds > step) | (lines.minimums > 0))
    return out


def _least_level(lines: Lines, batch: int, low: float) -> tuple[float, Flags]:
    """Return the least level above `low` at which some subset holds `batch`, and that subset."""
    top = np.where(lines.minimums <= batch, np.minimum(lines.caps, batch), 0)
    high = float(lines.formula(top).max())
    best = _subset_within(lines, batch, high)
    if best is None:
        raise InputError(
            f"no subset of the devices holds {batch}: their min_batch and max_batch rule it out",
            hint="choose another batch or lower min_batch",
        )
    # Floats that are not negative stand in the order of their bits.
    first, last = (int(np.float64(max(x, 0.0)).view(np.int64)) for x in (low, high))
    while last - first > 1:
        middle = (first + last) // 2
        subset = _subset_within(lines, batch, float(np.int64(middle).view(np.float64)))
        if subset is None:
            first = middle
        else:
            last, best = middle, subset
    return float(np.int64(last).view(np.float64)), best


def _subset_within(lines: Lines, batch: int, level: float) -> Flags | None:
    """Return a subset (n,) of the devices with a minimum that holds `batch` within `level`.

    Devices without a minimum help with all they have. None: there is no such subset.
    """
    usable = (lines.formula(lines.minimums) <= level) & (lines.minimums <= batch)
    minimums = np.where(usable, lines.minimums, 0)
    caps = np.maximum(np.where(usable, np.minimum(lines.caps, batch), 0), minimums)
    capacities = WaterFilling(lines, minimums, caps).capacities(level)
    if capacities.sum() < batch:
        return None
    forced: Flags = usable & (lines.minimums > 0)
    if minimums.sum() <= batch:
        return forced
    needed = batch - int(capacities[~forced].sum())
    index = np.flatnonzero(forced)
    chosen = _knapsack(minimums[index], capacities[index], batch, needed)
    if chosen is None:
        return None
    subset = np.zeros(len(lines), dtype=bool)
    subset[index[chosen]] = True
    return subset


def _knapsack(
    weights: Array, values: Array, limit: float, needed: float
) -> NDArray[np.intp] | None:
    """Return items of weight <= `limit` together and of value >= `needed`, or None; exact.

    Keeps, item by item, the sums of weight and value that no other dominates (Nemhauser and
    Ullmann, "Discrete Dynamic Programming and Capital Allocation", 1969), and drops those that the
    items left cannot lift to `needed`.
    """
    order = np.argsort(-values / weights, kind="stable")
    promise = np.cumsum(values[order][::-1])[::-1]  # of this item and all after it
    weight, value = np.zeros(1), np.zeros(1)
    history: list[tuple[NDArray[np.intp], Flags]] = []
    for place, item in enumerate(order):
        if value.max() >= needed:
            break
        parents = np.tile(np.arange(len(weight)), 2)
        taken = np.repeat([False, True], len(weight))
        weight = np.concatenate([weight, weight + weights[item]])
        value = np.concatenate([value, value + values[item]])
        rest = promise[place + 1] if place + 1 < len(order) else 0.0
        alive = np.flatnonzero((weight <= limit) & (value + rest >= needed))
        alive = alive[np.lexsort((-value[alive], weight[alive]))]
        best_before = np.maximum.accumulate(np.concatenate([[-1.0], value[alive]]))[:-1]
        alive = alive[value[alive] > best_before]
        if not len(alive):
            return None
        weight, value = weight[alive], value[alive]
        history.append((parents[alive], taken[alive]))
    if value.max() < needed:
        return None
    state, chosen = int(value.argmax()), []
    for place in range(len(history) - 1, -1, -1):
        parents, taken = history[place]
        if taken[state]:
            chosen.append(order[place])
        state = int(parents[state])
    return np.array(chosen, dtype=np.intp)
