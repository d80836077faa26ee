"""A decision as it is stored and shown: what each job got, why, and what else there was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from staves.hardware import Configuration
from staves.scheduling import JobView, Option, Reason
from staves.service._deciding import Outcome
from staves.service._rows import Job


def decision_document(
    outcome: Outcome, jobs: Sequence[Job], policy: str, seconds: float
) -> dict[str, Any]:
    """Return the document of a decision.

    Args:
        outcome: what was decided.
        jobs: all jobs that were open then.
        policy: its name.
        seconds: that it took.
    """
    decision = outcome.decision
    views = {view.id: view for view in outcome.view.jobs}
    return {
        "policy": policy,
        "seconds": seconds,
        "value": decision.value,
        "bound": decision.bound,
        "jobs": [_of_job(outcome, job, views.get(job.id)) for job in jobs],
    }


def _of_job(outcome: Outcome, job: Job, view: JobView | None) -> dict[str, Any]:
    types = outcome.view.types
    allocation = outcome.allocations.get(job.id)
    reason = outcome.decision.reasons.get(job.id, Reason(_without_reason(outcome, job)))
    if allocation is not None and not job.record.elastic:  # of its speed nothing is known
        reason = Reason(
            "It has the devices that it needs. Whether it can be resized, it has not said."
        )
    return {
        "id": job.id,
        "owner": job.owner,
        "name": job.record.name,
        "devices": [] if allocation is None else list(allocation.names),
        "text": reason.text + _held_at(job),
        "chosen": None if reason.chosen is None else _option(reason.chosen, types, view),
        "alternatives": [_option(option, types, view) for option in reason.alternatives],
        "probed": [types[g] for g in reason.probed],
    }


def _held_at(job: Job) -> str:
    """Return what its owner has set, which decisions keep to; empty for nothing."""
    scaled = job.spec.scaled
    if scaled is None or not job.record.elastic:
        return ""
    devices = "1 device" if scaled == 1 else f"{scaled} devices"
    return f" `staves scale` holds it at {devices}; `staves scale {job.id} auto` lets it go."


def _without_reason(outcome: Outcome, job: Job) -> str:
    if job.id in outcome.unable:
        return f"It cannot run here: {outcome.unable[job.id]}."
    if job.record.state == "saving":
        return "It is being ended."
    if job.record.state == "paused":
        return "It is paused."
    return "It has devices." if job.id in outcome.allocations else "It waits for devices."


def _option(option: Option, types: Sequence[str], view: JobView | None) -> dict[str, Any]:
    counts = dict(zip(types, option.counts, strict=True))
    return {
        "configuration": str(Configuration({name: n for name, n in counts.items() if n})),
        "counts": counts,
        "rate": option.rate,
        "log_std": _log_std(option, view),
        "seconds": option.seconds,
        "utility": option.utility,
        "price": option.price,
        "pause": option.pause,
        "why": option.why,
    }


def _log_std(option: Option, view: JobView | None) -> float | None:
    """Return how sure the rate is; None where nothing tells."""
    if view is None or view.log_std is None:
        return None
    return float(view.log_std(np.array([option.counts], dtype=np.int64))[0])
