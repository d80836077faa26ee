"""Probes: one device of each type that a job has never run on, on top of what it got."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import as_table, in_words, single, unpinned
from staves.scheduling._quotas import room
from staves.scheduling._view import Counts, Decision, JobView, Option, Reason, View


def with_probes(view: View, decision: Decision) -> Decision:
    """Return the decision with probes, made of devices alone that it leaves free.

    Every elastic job that has devices gets one of each type in its `probes`, as far as its maximum,
    its types, `mix` and its tenant's quota allow: one short phase on the mixed set then measures
    all of them at once. Where nothing tells which types are worth it, these are all that are
    `unmeasured`, the most needed first: that of which most is free. Jobs come in order of
    submission. What was added is in `Reason.probed`.
    """
    free = np.array(unpinned(view), dtype=np.int64)
    for job in view.jobs:
        if not job.pinned and job.id in decision.chosen:
            free -= np.array(decision.chosen[job.id], dtype=np.int64)
    chosen, reasons = dict(decision.chosen), dict(decision.reasons)
    rooms = room(view, chosen)
    for job in view.jobs:
        counts = chosen.get(job.id)
        if counts is None or not job.elastic or not job.mix:
            continue
        grown, probed = _probed(job, counts, free, rooms.get(job.tenant, math.inf))
        if probed:
            if job.tenant in rooms:
                rooms[job.tenant] -= len(probed)
            free -= np.array(grown) - np.array(counts)
            chosen[job.id] = grown
            reasons[job.id] = _reason(view, job, grown, probed, reasons.get(job.id))
    return replace(decision, chosen=chosen, reasons=reasons)


def _probed(
    job: JobView, counts: Counts, free: NDArray[np.int64], most: float
) -> tuple[Counts, tuple[int, ...]]:
    grown, probed = np.array(counts), list[int]()
    for g in _wanted(job, free):
        if len(probed) >= most:
            break
        allowed = job.types is None or g in job.types
        if not allowed or counts[g] or not free[g] or grown.sum() >= job.maximum:
            continue
        larger = grown + np.array(single(len(counts), g, 1))
        if job.rates(larger[None])[0] > 0:
            grown = larger
            probed.append(g)
    return tuple(grown.tolist()), tuple(sorted(probed))


def _wanted(job: JobView, free: NDArray[np.int64]) -> Sequence[int]:
    if job.probes is not None:
        return job.probes
    return sorted(job.unmeasured, key=lambda g: (-free[g], g))


def _reason(
    view: View, job: JobView, counts: Counts, probed: tuple[int, ...], given: Reason | None
) -> Reason:
    rate = float(job.rates(as_table([counts], len(counts)))[0])
    seconds = job.remaining / rate if rate > 0 else math.inf
    before = given or Reason("")
    added = [0] * len(counts)
    for g in probed:
        added[g] = 1
    text = f"{before.text} {in_words(added, view.types)} added to measure it there.".strip()
    utility = before.chosen.utility if before.chosen is not None else 0.0
    return replace(before, text=text, chosen=Option(counts, rate, seconds, utility), probed=probed)
