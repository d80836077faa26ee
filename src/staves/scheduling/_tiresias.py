"""Tiresias: least attained service, in two queues."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from staves.scheduling._configurations import (
    as_table,
    in_words,
    keeps_guaranteed,
    permitted,
    single,
    unpinned,
    usable,
)
from staves.scheduling._policy import Policy
from staves.scheduling._reasons import Reasons
from staves.scheduling._rigid import granted, impossible, still_fits
from staves.scheduling._settled import requested, settled
from staves.scheduling._view import Counts, Decision, JobView, Reason, View

THRESHOLD = 16 * 3600.0
"""Device-seconds after which a job goes to the second queue; as Pollux's authors ran it."""


class Tiresias(Policy):
    """Jobs that have had least go first: discretised two-dimensional least attained service.

    After Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning" (NSDI '19,
    section 4.2). A job whose device-seconds reach the threshold goes to the second queue, behind
    all jobs of the first, and never back. Within the first, as they came; within the second, as
    they first started. What does not fit is passed over. Jobs are rigid: what they asked for, of
    one type, the fastest that has it free; the paper's clusters have one type only. New devices
    come from the emptiest node.

    Args:
        threshold: device-seconds.
    """

    name = "tiresias"
    round_seconds = 60.0
    at_events = False
    job_kind = "rigid"
    placing = "spread"

    def __init__(self, threshold: float = THRESHOLD) -> None:
        self._threshold = threshold

    def decide(self, view: View) -> Decision:
        """Return who runs, in the order of the queues."""
        done, free = settled(view)
        chosen = dict(done.chosen)
        waiting = [job for job in view.jobs if job.id not in chosen]
        line = sorted(waiting, key=lambda job: self._rank(view, job))
        for job in line:
            counts = job.current if _fits_as_it_is(job, free) else _fastest(job, free)
            if counts is not None:
                chosen[job.id] = counts
                free = [f - n for f, n in zip(free, counts, strict=True)]

        def reasons() -> dict[str, Reason]:
            told = dict(done.reasons)
            for place, job in enumerate(line, 1):
                second = job.attained >= self._threshold
                where = f"number {place} in line, in the {'second' if second else 'first'} queue"
                if job.id in chosen:
                    told[job.id] = granted(view, job, chosen[job.id], where)
                else:
                    told[job.id] = _never(view, job) or Reason(
                        f"It is {where}, and too few devices are left by those before it."
                    )
            return told

        return Decision(chosen, Reasons(reasons))

    def _rank(self, view: View, job: JobView) -> tuple[bool, float]:
        """Return the sort key; Python's sort keeps the order of submission among equals."""
        second = job.attained >= self._threshold
        return second, (view.now - job.age) if second else job.submitted


def _fits_as_it_is(job: JobView, free: Sequence[int]) -> bool:
    return still_fits(job, free) and sum(job.current or ()) == requested(job)


def _fastest(job: JobView, free: Sequence[int]) -> Counts | None:
    """Return the requested devices of the fastest type that has them free; None: no type has."""
    size = requested(job)
    rows = [single(len(free), g, size) for g, n in enumerate(usable(job, free)) if n >= size]
    if not rows:
        return None
    table = as_table(rows, len(free))
    table = table[permitted(job, table) & keeps_guaranteed(job, free, table)]
    rates = job.rates(table) if len(table) else np.zeros(0)
    if not rates.any():
        return None
    return tuple(table[int(rates.argmax())].tolist())


def _never(view: View, job: JobView) -> Reason | None:
    """Return the reason of a job that no type alone could run even if all were free; else None."""
    if _fastest(job, unpinned(view)) is not None:
        return None
    most = in_words(usable(job, view.capacity), view.types)
    return impossible(view, job) or Reason(
        f"{requested(job)} devices of one type are needed to run it, and there are {most}."
    )
