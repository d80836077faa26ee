"""What FIFO and SRTF share: jobs at one size, on the fastest devices that are free."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from staves.scheduling._configurations import (
    allowed,
    as_table,
    in_words,
    keeps_guaranteed,
    single,
    too_few,
    usable,
)
from staves.scheduling._view import Counts, JobView, Option, Reason, View


def still_fits(job: JobView, free: Sequence[int]) -> bool:
    """Return whether the job can go on with exactly what it has, out of `free`."""
    if job.current is None:
        return False
    return all(n <= room for n, room in zip(job.current, free, strict=True)) and allowed(
        job, job.current
    )


def fastest(job: JobView, free: Sequence[int]) -> Counts | None:
    """Return the job's minimum of devices out of `free`: of one type, the fastest, if one has them.

    Else, where types may mix, the fastest devices one by one. None where there are too few, or
    none of these runs the job.
    """
    types, need = len(free), max(1, job.minimum)
    if need > job.maximum:
        return None
    most = usable(job, free)
    rows = [single(types, g, need) for g in range(types) if most[g] >= need]
    if job.mix and sum(most) >= need:
        rows.append(_mixed(job, most, need))
    table = as_table(rows, types)
    table = table[keeps_guaranteed(job, free, table)] if len(table) else table
    if not len(table):
        return None
    rates = job.rates(table)
    of_one_type = (table > 0).sum(axis=1) == 1
    # Of one type before mixed, then by speed; the first of equals.
    best = int(np.lexsort((-rates, ~(of_one_type & (rates > 0))))[0])
    return tuple(table[best].tolist()) if rates[best] > 0 else None


def _mixed(job: JobView, most: Sequence[int], need: int) -> Counts:
    speed = job.rates(np.eye(len(most), dtype=np.int64))
    counts, left = [0] * len(most), need
    for g in np.argsort(-speed, kind="stable").tolist():
        counts[g] = min(most[g], left)
        left -= counts[g]
    return tuple(counts)


def option(job: JobView, counts: Counts) -> Option:
    """Return the option with its rate for a utility: these policies take the fastest free."""
    rate = float(job.rates(as_table([counts], len(counts)))[0])
    return Option(counts, rate, job.remaining / rate if rate > 0 else math.inf, rate)


def granted(view: View, job: JobView, counts: Counts, why: str) -> Reason:
    """Return why the job got `counts`."""
    return Reason(f"{in_words(counts, view.types)}: {why}.", option(job, counts))


def impossible(view: View, job: JobView) -> Reason | None:
    """Return the reason of a job that not even the empty cluster could run; else None."""
    if fastest(job, view.capacity) is not None:
        return None
    most = usable(job, view.capacity)
    return Reason(f"{too_few(job.minimum, most, view.types)}: the cluster has no more.")
