"""The JSON of a run: a summary, and what happened to each job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from staves.hardware import Cluster
from staves.simulation._bounds import Alone
from staves.simulation._metrics import published_metrics
from staves.simulation._results import JobResult, Simulation
from staves.simulation._work import Submission


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the ceil(share n)-th smallest of n values; None of none."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values) - 1e-9) - 1)]


def summary(simulation: Simulation, jobs: Sequence[Submission], cluster: Cluster) -> dict[str, Any]:
    """Return the figures of a run; times in seconds.

    Fairness, the distribution of completion times, contention and deadlines are those of
    `_metrics`.
    `contention_free_jct_seconds` is the mean of every job alone on its best devices of one type: no
    policy that grants one type can be below it. Only `decision_seconds`, `wall_seconds` and
    `cpu_seconds` differ between equal runs.
    """
    results, timing = simulation.jobs, simulation.timing
    times = [job.jct_seconds for job in results if job.jct_seconds is not None]
    devices = sum(job.device_seconds for job in results)
    first = min((job.submitted for job in results), default=0.0)
    last = max((span.until for job in results for span in job.spans), default=first)
    queueing = [job.started - job.submitted for job in results if job.started is not None]
    alone = Alone(tuple(cluster.configuration.values()))
    bounds = [alone.seconds(job) for job in jobs]
    return {
        "jobs": len(results),
        "finished": len(times),
        "average_jct_seconds": fmean(times) if times else None,
        "p50_jct_seconds": quantile(times, 0.5),
        "p99_jct_seconds": quantile(times, 0.99),
        "makespan_seconds": simulation.makespan_seconds,
        "average_queueing_seconds": fmean(queueing) if queueing else None,
        "contention_free_jct_seconds": fmean(bounds) if bounds else None,
        "device_seconds": devices,
        "device_seconds_by_type": _by_type(results),
        "utilisation": devices / (cluster.total * (last - first)) if last > first else None,
        "restarts": sum(job.restarts for job in results),
        "pause_seconds": sum(pause.seconds for job in results for pause in job.pauses),
        "failures": sum(job.failures for job in results),
        "unmeasured_jobs": sum(not job.measured for job in results),
        **published_metrics(results, jobs, alone),
        "decisions": simulation.decisions,
        "optimality_gap": {
            "mean": fmean(simulation.gaps) if simulation.gaps else None,
            "max": max(simulation.gaps, default=None),
        },
        "decision_seconds": {
            "p50": quantile(timing.decisions, 0.5),
            "p99": quantile(timing.decisions, 0.99),
            "max": max(timing.decisions, default=None),
        },
        "wall_seconds": timing.wall,
        "cpu_seconds": timing.cpu,
    }


def job_document(job: JobResult) -> dict[str, Any]:
    """Return one job as JSON: its spans hold counts by type, and nodes."""
    return {
        "id": job.id,
        "application": job.application,
        "submitted": job.submitted,
        "started": job.started,
        "finished": job.finished,
        "jct_seconds": job.jct_seconds,
        "device_seconds": job.device_seconds,
        "device_seconds_by_type": job.device_seconds_by_type,
        "restarts": job.restarts,
        "failures": job.failures,
        "lost_samples": job.lost,
        "measured": job.measured,
        "pauses": [{"since": p.since, "seconds": p.seconds} for p in job.pauses],
        "spans": [
            {
                "since": span.since,
                "until": span.until,
                "devices": dict(span.allocation.configuration),
                "nodes": list(span.allocation.nodes),
            }
            for span in job.spans
        ],
    }


def _by_type(results: Sequence[JobResult]) -> dict[str, float]:
    total: dict[str, float] = {}
    for job in results:
        for name, seconds in job.device_seconds_by_type.items():
            total[name] = total.get(name, 0.0) + seconds
    return {name: total[name] for name in sorted(total)}
