"""First in, first out."""

from __future__ import annotations

from staves.scheduling._configurations import unpinned
from staves.scheduling._policy import Policy
from staves.scheduling._rigid import fastest, granted, impossible, still_fits
from staves.scheduling._view import Counts, Decision, Reason, View


class Fifo(Policy):
    """Jobs start in the order in which they came, at their minimum size, and run to their end.

    No backfilling: while the first in the line does not fit, nobody behind it starts, even on
    devices that it could not use. A job that the whole cluster cannot hold is passed over. Nothing
    is preempted or resized; a job that lost devices chooses anew, before the line, or joins it
    again at its place.
    """

    name = "fifo"
    job_kind = "rigid"
    round_seconds = None

    def decide(self, view: View) -> Decision:
        """Return what runs, and the first jobs of the line as far as they fit."""
        free = list(unpinned(view))
        chosen: dict[str, Counts] = {}
        reasons: dict[str, Reason] = {}
        for job in view.jobs:
            if job.current is None:
                continue
            if job.pinned or still_fits(job, free):
                chosen[job.id] = job.current
                reasons[job.id] = granted(view, job, job.current, "it keeps what it started with")
                if not job.pinned:
                    free = [f - n for f, n in zip(free, job.current, strict=True)]
        for job in view.jobs:
            if job.current is not None and job.id not in chosen:
                counts = fastest(job, free)
                if counts is not None:
                    chosen[job.id] = counts
                    reasons[job.id] = granted(view, job, counts, "devices that it had are gone")
                    free = [f - n for f, n in zip(free, counts, strict=True)]
        ahead: str | None = None
        for job in view.jobs:
            if job.id in chosen:
                continue
            if (never := impossible(view, job)) is not None:
                reasons[job.id] = never
            elif ahead is not None:
                reasons[job.id] = Reason(f"It waits behind {ahead}, which came before it.")
            elif (counts := fastest(job, free)) is None:
                ahead = job.label
                reasons[job.id] = Reason("It is the first in the line; too few devices are free.")
            else:
                chosen[job.id] = counts
                reasons[job.id] = granted(view, job, counts, "the fastest that were free")
                free = [f - n for f, n in zip(free, counts, strict=True)]
        return Decision(chosen, reasons)
