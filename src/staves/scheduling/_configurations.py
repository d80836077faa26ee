"""Which configurations a job may have at all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._view import Counts, JobView, View

Table = NDArray[np.int64]
"""Configurations, shape (C, G)."""


def unpinned(view: View) -> Counts:
    """Return the devices of each type that a policy decides about: all but those of pinned jobs.

    A pinned job may hold more than there is, on nodes that are being drained.
    """
    left = np.array(view.capacity, dtype=np.int64)
    for job in view.jobs:
        if job.current is not None and job.pinned:
            left -= np.array(job.current, dtype=np.int64)
    return tuple(np.maximum(left, 0).tolist())


class Terms(Protocol):
    """What of a job decides what it may have: a `JobView`, or what stands for several alike."""

    @property
    def minimum(self) -> int: ...
    @property
    def maximum(self) -> int: ...
    @property
    def types(self) -> frozenset[int] | None: ...
    @property
    def mix(self) -> bool: ...


class Holding(Terms, Protocol):
    """The same of a job that may have devices already."""

    @property
    def current(self) -> Counts | None: ...
    @property
    def guaranteed(self) -> int: ...


def usable(job: Terms, available: Sequence[int]) -> Counts:
    """Return how many of `available` devices of each type the job could have at most."""
    types, most = job.types, job.maximum
    return tuple(
        [
            (count if count < most else most) if types is None or g in types else 0
            for g, count in enumerate(available)
        ]
    )


def permitted(job: Terms, configurations: Table) -> NDArray[np.bool_]:
    """Say which rows keep to the job's minimum, maximum, types and mix; shape (C,)."""
    total = configurations.sum(axis=1)
    fine: NDArray[np.bool_] = (total >= max(1, job.minimum)) & (total <= job.maximum)
    if job.types is not None:
        others = [g for g in range(configurations.shape[1]) if g not in job.types]
        fine &= ~configurations[:, others].any(axis=1)
    if not job.mix:
        fine &= (configurations > 0).sum(axis=1) == 1
    return fine


def allowed(job: JobView, counts: Counts) -> bool:
    """Say of one configuration what `permitted` says of many."""
    used = [g for g, n in enumerate(counts) if n]
    return (
        max(1, job.minimum) <= sum(counts) <= job.maximum
        and (job.types is None or job.types.issuperset(used))
        and (job.mix or len(used) == 1)
    )


def keeps_guaranteed(
    job: Holding, available: Sequence[int], configurations: Table
) -> NDArray[np.bool_]:
    """Say which rows leave the job the devices that are guaranteed to it; shape (C,).

    Devices that it held and that are gone, or that it may use no more, count no longer.
    """
    if job.current is None or not job.guaranteed:
        return np.ones(len(configurations), dtype=bool)
    held = np.minimum(job.current, usable(job, available))
    most = int(held.sum() if job.mix else held.max(initial=0))
    kept = np.minimum(configurations, held).sum(axis=1)
    fine: NDArray[np.bool_] = kept >= min(job.guaranteed, most, job.maximum)
    return fine


def every(job: Terms, available: Sequence[int], limit: int) -> Table | None:
    """Return all permitted configurations within `available`; None where a grid exceeds `limit`.

    Args:
        job: the job.
        available: devices of each type, (G,).
        limit: the most cells of the grid, (count + 1) over types multiplied, that are looked at.
    """
    most = usable(job, available)
    if not job.mix:
        if sum(most) > limit:
            return None
        rows = [single(len(most), g, n) for g, top in enumerate(most) for n in range(1, top + 1)]
    else:
        if math.prod(top + 1 for top in most) > limit:
            return None
        rows = list(itertools.product(*(range(top + 1) for top in most)))
    table = as_table(rows, len(most))
    return table[permitted(job, table)]


def single(types: int, g: int, count: int) -> Counts:
    """Return `count` devices of type `g` among `types` types."""
    return tuple(count if h == g else 0 for h in range(types))


def as_table(rows: Sequence[Counts], types: int) -> Table:
    """Return rows of counts as an array of shape (len(rows), types), empty ones included."""
    return np.array(rows, dtype=np.int64).reshape(len(rows), types)


def in_words(counts: Sequence[int], types: Sequence[str]) -> str:
    """Return `2 a100 + 1 t4`, or `nothing`."""
    parts = [f"{n} {name}" for n, name in zip(counts, types, strict=True) if n]
    return " + ".join(parts) or "nothing"


def too_few(minimum: int, usable: Sequence[int], types: Sequence[str]) -> str:
    """Return why a job cannot run on what there is of the types that it may use."""
    needed = "1 device" if minimum <= 1 else f"{minimum} devices"
    there = in_words(usable, types)
    return f"It needs {needed}, and there is {there} that it may use"
