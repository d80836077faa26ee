"""The figures that papers compare schedulers by: pure functions of what happened to the jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from staves.simulation._bounds import Alone, contention
from staves.simulation._results import JobResult
from staves.simulation._work import Submission

JCT_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""Of jobs, at which a summary tells the distribution of completion times."""

_ROUNDING = 1e-9
"""A ratio that is above 1 by less is 1: a job alone on the cluster takes its fair time exactly."""


def finish_time_fairness(
    results: Sequence[JobResult], jobs: Sequence[Submission], alone: Alone
) -> list[float]:
    """Return Themis's rho (NSDI '20, section 3) of each job; nan of one that did not finish.

    rho = JCT / the time alone on a 1/N share of every type, N the mean number of active jobs while
    the job was active. 1 is as fast as alone on the share; above is unfair.

    Args:
        results: what happened.
        jobs: the same jobs as they were submitted, in the same order.
        alone: of the cluster.
    """
    return [
        math.nan
        if result.jct_seconds is None or math.isnan(n)
        else result.jct_seconds / alone.fair_seconds(job, n)
        for result, job, n in zip(results, jobs, contention(results), strict=True)
    ]


def fairness(ratios: Sequence[float]) -> dict[str, float | None]:
    """Return the worst and the mean ratio, and the share of jobs above 1; nan does not count."""
    known = [ratio for ratio in ratios if not math.isnan(ratio)]
    return {
        "worst": max(known, default=None),
        "mean": fmean(known) if known else None,
        "unfair_share": sum(ratio > 1 + _ROUNDING for ratio in known) / len(known)
        if known
        else None,
    }


def jct_distribution(
    results: Sequence[JobResult], shares: Sequence[float] = JCT_SHARES
) -> dict[str, float | None]:
    """Return the completion time that a share of all jobs does not exceed, by share, in seconds.

    The ceil(share x n)-th smallest of n jobs; None where so many did not finish.
    """
    times = sorted(job.jct_seconds for job in results if job.jct_seconds is not None)
    found: dict[str, float | None] = {}
    for share in shares:
        rank = max(1, math.ceil(share * len(results) - 1e-9))
        found[f"{share:g}"] = times[rank - 1] if rank <= len(times) else None
    return found


def device_hours_per_job(results: Sequence[JobResult]) -> float | None:
    """Return the mean device-hours that a job held, whatever the type; None of no jobs."""
    return fmean(job.device_seconds for job in results) / 3600 if results else None


def mean_contention(results: Sequence[JobResult]) -> float | None:
    """Return the mean over finished jobs of the mean number of active jobs while each was."""
    known = [n for n in contention(results) if not math.isnan(n)]
    return fmean(known) if known else None


def deadlines(results: Sequence[JobResult], by: Mapping[str, float]) -> dict[str, Any]:
    """Return how many jobs have a deadline, how many met it, and the share.

    Args:
        results: what happened.
        by: deadlines by job, in seconds of simulated time; inf and absent: none.
    """
    due = [job for job in results if math.isfinite(by.get(job.id, math.inf))]
    met = sum(job.finished is not None and job.finished <= by[job.id] for job in due)
    return {"jobs": len(due), "met": met, "share": met / len(due) if due else None}


def published_metrics(
    results: Sequence[JobResult], jobs: Sequence[Submission], alone: Alone
) -> dict[str, Any]:
    """Return all of these figures as a part of a run's summary."""
    return {
        "finish_time_fairness": fairness(finish_time_fairness(results, jobs, alone)),
        "jct_seconds_by_share": jct_distribution(results),
        "device_hours_per_job": device_hours_per_job(results),
        "contention": mean_contention(results),
        "peak_active_jobs": peak_active(results),
        "deadlines": deadlines(results, {job.view.id: job.view.deadline for job in jobs}),
    }


def peak_active(results: Sequence[JobResult]) -> int:
    """Return the most jobs that were active at one time; one that did not finish stays so."""
    if not results:
        return 0
    starts = np.sort([job.submitted for job in results])
    ends = np.sort([math.inf if job.finished is None else job.finished for job in results])
    active = np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, "right")
    return int(active.max())
