"""What published policies leave alone: jobs whose devices this project promises them, or that are
in a pause; and the size that a rigid job asks for."""

from __future__ import annotations

from staves.scheduling._configurations import unpinned
from staves.scheduling._reasons import Reasons
from staves.scheduling._rigid import granted, still_fits
from staves.scheduling._view import Counts, Decision, JobView, Reason, View


def settled(view: View, *, pausing: bool = False) -> tuple[Decision, list[int]]:
    """Return the jobs that keep exactly what they have, with reasons, and the devices left.

    They are the pinned ones and, as far as all of it is still there, running ones with guaranteed
    devices; with `pausing` those in a pause as well.

    Returns:
        The decision about these alone, and devices by type for all others, (G,).
    """
    free = list(unpinned(view))
    chosen: dict[str, Counts] = {}
    whys: list[tuple[JobView, str]] = []
    running = [job for job in view.jobs if job.current is not None]
    for job in sorted(running, key=lambda job: (not job.pinned, job.guaranteed == 0)):
        assert job.current is not None
        if job.pinned:
            why = "it is being measured" if job.settling else "it cannot be resized"
        elif job.guaranteed > 0 and job.settling:
            why = "it has just changed"
        elif job.guaranteed > 0:
            why = "devices of it are guaranteed"
        elif pausing and job.pause_left > 0:
            why = "it is being restarted"
        else:
            continue
        if not job.pinned:
            if not still_fits(job, free):
                continue
            free = [f - n for f, n in zip(free, job.current, strict=True)]
        chosen[job.id] = job.current
        whys.append((job, why))

    def reasons() -> dict[str, Reason]:
        return {job.id: granted(view, job, chosen[job.id], why) for job, why in whys}

    return Decision(chosen, Reasons(reasons)), free


def requested(job: JobView) -> int:
    """Return the devices that a rigid job wants: as asked for, else its minimum."""
    return min(max(1, job.minimum, job.requested), job.maximum)
