"""The same jobs under other rules, by simulation with what the demo has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rich.table import Table

from examples.demo._summary import types_of
from staves.estimation import EvenRates, JobProfile, ProfileRates, relative_speeds
from staves.hardware import Cluster
from staves.scheduling import JobView, Policy, policy
from staves.simulation import simulate

ASKED = 2
"""Devices that each job asks for, and keeps, where nothing is elastic; at least its minimum."""


def compare(jobs: Sequence[Mapping[str, Any]], cluster: Cluster) -> dict[str, Any]:
    """Return the average JCT as measured, and by simulation under heet, and fifo with even splits.

    Args:
        jobs: as the API shows each of them.
        cluster: the demo's.
    """
    finished = [job for job in jobs if job["finished"] and job["spans"]]
    measured = {job["name"]: job["finished"] - job["submitted"] for job in finished}
    return {
        "simulated": ["heet", "fifo, even splits"],
        "jct_seconds": {
            "measured": measured,
            "heet": _simulated(finished, cluster, policy("heet"), even=False),
            "fifo, even splits": _simulated(finished, cluster, policy("fifo"), even=True),
        },
    }


def _simulated(
    jobs: Sequence[Mapping[str, Any]], cluster: Cluster, chosen: Policy, *, even: bool
) -> dict[str, float | None]:
    profiles = [_profile(job) for job in jobs]
    speeds = relative_speeds(profiles)
    views = [
        _view(job, profile, speeds, cluster, even=even)
        for job, profile in zip(jobs, profiles, strict=True)
    ]
    results = simulate(chosen, cluster, views).jobs
    names = {job["id"]: job["name"] for job in jobs}
    return {names[result.id]: result.jct_seconds for result in results}


def _profile(job: Mapping[str, Any]) -> JobProfile:
    """Return what the job has learned; of one that was always alone, its step on one device."""
    profile = JobProfile.from_knowledge(job["knowledge"], job["progress"]["batch"])
    if profile.lines:
        return profile
    span = max(job["spans"], key=lambda span: span["steps"])
    (kind,) = types_of(span)
    return JobProfile.from_step(kind, span["step_seconds"], profile.batch)


def _view(
    job: Mapping[str, Any],
    profile: JobProfile,
    speeds: Mapping[str, float],
    cluster: Cluster,
    *,
    even: bool,
) -> JobView:
    types = tuple(cluster.configuration)
    progress, spec = job["progress"], job["spec"]
    lines = profile.type_lines(types, speeds)
    rates = EvenRates(profile.batch, lines) if even else ProfileRates(profile.batch, lines)
    allowed = spec["types"]
    most = spec["maximum"] or cluster.total
    asked = min(max(ASKED, spec["minimum"]), most)
    # A start ends with the first step of the first span; what follows is a change in place.
    start = job["spans"][0]["since"] - job["started"] if job["spans"] else 0.0
    resizes = [span["pause_seconds"] for span in job["spans"] if span["pause_seconds"]]
    return JobView(
        id=job["id"],
        submitted=job["submitted"],
        rates=rates,
        remaining=float(progress["total_samples"]),
        minimum=asked if even else spec["minimum"],
        maximum=asked if even else most,
        types=None if allowed is None else frozenset(map(types.index, allowed)),
        weight=max(spec["priority"], 1) / 50,
        start_pause=start,
        resize_pause=fmean(resizes) if resizes else 0.0,
    )


def comparison_table(summary: Mapping[str, Any]) -> Table:
    """Draw the job completion times side by side."""
    times = summary["comparison"]["jct_seconds"]
    drawn = Table(title="Job completion times in seconds (EMULATED devices)")
    drawn.add_column("job")
    drawn.add_column("heet, measured", justify="right")
    drawn.add_column("heet, simulated", justify="right")
    drawn.add_column("fifo, even splits, simulated", justify="right")
    columns = [times["measured"], times["heet"], times["fifo, even splits"]]
    for name in times["measured"]:
        drawn.add_row(name, *(_seconds(column.get(name)) for column in columns))
    drawn.add_section()
    means = [
        fmean([value for value in column.values() if value is not None]) if column else None
        for column in columns
    ]
    drawn.add_row("mean", *map(_seconds, means))
    return drawn


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
