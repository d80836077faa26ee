"""Shortest remaining time first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from staves.scheduling._configurations import unpinned
from staves.scheduling._policy import Policy
from staves.scheduling._reasons import Reasons
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
        line = sorted(view.jobs, key=lambda job: _rank(view, job))
        for job in line:
            stays = job.pinned or still_fits(job, free)
            counts = job.current if stays else fastest(job, free)
            if counts is not None:
                chosen[job.id] = counts
                if not job.pinned:
                    free = [f - n for f, n in zip(free, counts, strict=True)]
        return Decision(chosen, Reasons(lambda: _reasons(view, line, chosen)))


def _reasons(
    view: View, line: Sequence[JobView], chosen: Mapping[str, Counts]
) -> dict[str, Reason]:
    reasons: dict[str, Reason] = {}
    ahead: list[str] = []
    for job in line:
        if job.id in chosen:
            why = f"number {len(ahead) + 1} to end"
            reasons[job.id] = granted(view, job, chosen[job.id], why)
            ahead.append(job.label)
            continue
        reasons[job.id] = impossible(view, job) or Reason(
            f"{len(ahead)} jobs that end sooner go first: {', '.join(ahead[-3:])}."
            if ahead
            else "The devices that it needs are held by jobs that cannot be preempted."
        )
    return reasons


def _rank(view: View, job: JobView) -> tuple[bool, float, float]:
    """Return the sort key; Python's sort keeps the order of submission among equals."""
    held = job.current is not None and (job.pinned or job.guaranteed > 0)
    counts = job.current if job.current is not None else fastest(job, view.capacity)
    seconds = math.inf if counts is None else option(job, counts).seconds
    return (not held, seconds, job.attained)
