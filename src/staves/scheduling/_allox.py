"""AlloX: jobs to unlike devices by matching them with places in line, counted from the end."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._growing import known_work
from staves.scheduling._ladders import Array, decided, ladders
from staves.scheduling._matching import matched
from staves.scheduling._policy import Policy
from staves.scheduling._reasons import Reasons
from staves.scheduling._rigid import granted, still_fits
from staves.scheduling._settled import requested, settled
from staves.scheduling._view import Decision, JobView, Reason, View


class Allox(Policy):
    """The smallest average completion time on types that are unlike, by a bipartite matching.

    After Le et al., "AlloX: Compute Allocation in Hybrid Clusters" (EuroSys '20, section 4). On one
    machine the job that is k-th from the end delays k jobs, itself too, by its time p; so a job
    that is matched to (machine, k) costs k p there, and the matching of the smallest sum is the
    schedule of the smallest average completion time. Jobs run to their end. Each type is as many
    machines alike as its devices hold jobs of the mean size, free when the first of its jobs ends;
    on each type the jobs that are furthest from the end start first, and what does not fit is
    passed over. The filter by which the paper trades this for fairness is left out.
    """

    name = "allox"
    job_kind = "rigid"
    round_seconds = None

    def decide(self, view: View) -> Decision:
        """Return what runs, and whom the matching starts."""
        done, free = settled(view)
        chosen, running = dict(done.chosen), []
        for job in view.jobs:
            if job.id not in chosen and still_fits(job, free) and job.current is not None:
                chosen[job.id] = job.current
                running.append(job)
                free = [f - n for f, n in zip(free, job.current, strict=True)]
        jobs = [job for job in view.jobs if job.id not in chosen]
        rates = ladders(jobs, view.capacity, rigid=True).rates.max(axis=2)  # at the asked size
        able = np.flatnonzero(rates.any(axis=1))
        sizes = np.array([requested(job) for job in jobs], dtype=np.int64)
        work = np.array([known_work(job) for job in jobs])
        with np.errstate(divide="ignore"):
            seconds = np.where(rates > 0, work[:, None] / rates, np.inf)
        mean = float(sizes[able].mean()) if len(able) else 1.0
        machines = [max(1, math.floor(n / mean)) if n else 0 for n in view.capacity]
        release = _release(view, free)

        @cache
        def lines() -> dict[int, tuple[int, int]]:
            """Return the type of each job, and its place from the end of a line."""
            kind, place = schedule(seconds[able], machines, release)
            return {int(j): (int(g), int(k)) for j, g, k in zip(able, kind, place, strict=True)}

        started: dict[int, tuple[int, int]] = {}
        # Where nobody could start, who is where in line changes nothing; it takes longest.
        if ((rates > 0) & (sizes[:, None] <= np.array(free))).any():
            for j, (g, _) in sorted(lines().items(), key=lambda one: (-one[1][1], one[0])):
                if g >= 0 and sizes[j] <= free[g]:
                    started[j] = g, int(sizes[j])
                    free[g] -= int(sizes[j])
        return decided(
            view,
            Decision(chosen, Reasons(lambda: {**done.reasons, **_running(view, running)})),
            jobs,
            started,
            lambda j: f"number {lines()[j][1]} from the end of its line",
            lambda j: (
                f"It is number {lines()[j][1]} from the end of the line for"
                f" {view.types[lines()[j][0]]}."
                if j in lines()
                else f"It asks for {sizes[j]} devices of one type, and no type that runs it has as"
                " many."
            ),
        )


def _running(view: View, jobs: list[JobView]) -> dict[str, Reason]:
    return {job.id: granted(view, job, job.current or (), "it runs to its end") for job in jobs}


def schedule(
    seconds: Array, machines: list[int], release: list[float]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each job's type and its place from the end of its machine's line, from 1: (J,) both.

    Args:
        seconds: of each job on a machine of each type, (J, G); inf where it cannot run.
        machines: of each type, (G,).
        release: seconds until the machines of each type are free, (G,).
    """
    jobs = len(seconds)
    kinds = [
        (g, k)
        for g, count in enumerate(machines)
        if count and np.isfinite(seconds[:, g]).any()
        for k in range(1, math.ceil(jobs / count) + 1)  # nobody gains by a later place
    ]
    if not kinds:
        return np.full(jobs, -1), np.zeros(jobs, dtype=np.int64)
    g, k = (np.array(column) for column in zip(*kinds, strict=True))
    index = matched(k * seconds[:, g] + np.array(release)[g], [machines[h] for h in g])
    found = index >= 0
    return np.where(found, g[index], -1), np.where(found, k[index], 0)


def _release(view: View, free: list[int]) -> list[float]:
    """Return the seconds until the first devices of each type are free, (G,)."""
    release = []
    for g, count in enumerate(free):
        ends = [
            known_work(job) / rate
            for job in view.jobs
            if job.current is not None and job.current[g]
            if (rate := float(job.rates(np.array([job.current]))[0])) > 0
        ]
        release.append(0.0 if count or not ends else min(ends))
    return release
