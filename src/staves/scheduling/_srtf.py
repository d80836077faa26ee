"""Shortest remaining time first."""

from __future__ import annotations

import math

from staves.scheduling._configurations import unpinned
from staves.scheduling._policy import Policy
from staves.scheduling._rigid import fastest, granted, impossible, option, still_fits
from staves.scheduling._view import Counts, Decision, JobView, Reason, View


class Srtf(Policy):
    """The job that would end soonest chooses first; at their minimum size, with preemption.

    The remaining time of a job is that on what it has, or else on the fastest devices of the empty
    cluster; jobs of unknown work come last, those that have had least first. Each in turn keeps
    what it has as long as nobody before it took that, or else takes the fastest devices left. A job
    that does not fit is passed over, so that no device idles which a later one could use. Jobs with
    guaranteed devices choose before all others while they run.
    """

    name = "srtf"
    job_kind = "rigid"
    round_seconds = None

    def decide(self, view: View) -> Decision:
        """Return who runs, in order of the remaining time."""
        free = list(unpinned(view))
        chosen: dict[str, Counts] = {}
        reasons: dict[str, Reason] = {}
        ahead: list[str] = []
        for job in sorted(view.jobs, key=lambda job: _rank(view, job)):
            stays = job.pinned or still_fits(job, free)
            counts = job.current if stays else fastest(job, free)
            if counts is None:
                reasons[job.id] = impossible(view, job) or Reason(
                    f"{len(ahead)} jobs that end sooner go first: {', '.join(ahead[-3:])}."
                    if ahead
                    else "The devices that it needs are held by jobs that cannot be preempted."
                )
                continue
            chosen[job.id] = counts
            reasons[job.id] = granted(view, job, counts, f"number {len(ahead) + 1} to end")
            ahead.append(job.label)
            if not job.pinned:
                free = [f - n for f, n in zip(free, counts, strict=True)]
        return Decision(chosen, reasons)


def _rank(view: View, job: JobView) -> tuple[bool, float, float]:
    """Return the sort key; Python's sort keeps the order of submission among equals."""
    held = job.current is not None and (job.pinned or job.guaranteed > 0)
    counts = job.current if job.current is not None else fastest(job, view.capacity)
    seconds = math.inf if counts is None else option(job, counts).seconds
    return (not held, seconds, job.attained)
