"""From shares of time to rounds."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from staves.scheduling._configurations import in_words, single
from staves.scheduling._ladders import ladders
from staves.scheduling._policy import Policy
from staves.scheduling._reasons import Reasons
from staves.scheduling._rigid import impossible
from staves.scheduling._settled import requested, settled
from staves.scheduling._view import Counts, Decision, JobView, Option, Reason, View
from staves.scheduling.gavel._programmes import (
    Array,
    Problem,
    finish_time_fairness,
    makespan,
    max_min,
    max_sum,
)

_DIGITS = 5  # of a share, below which it is the solver's noise
_UNKNOWN = 3600.0  # seconds at its best rate that a job of unknown work is taken to last at least


class _Rounds(Policy):
    """Rigid jobs, each on one type at a time, in turns that follow an allocation of time.

    After Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
    Workloads" (OSDI '20, section 5): in every round, (job, type) pairs run in order of their
    priority, which is the share that the job should have on the type over that which it has had;
    pairs without a share come last. What does not fit is passed over.
    """

    job_kind = "rigid"
    round_seconds = 360.0
    at_events = False

    @abstractmethod
    def shares(self, problem: Problem) -> Array:
        """Return the share of time of each job on each type, (J, G)."""

    def decide(self, view: View) -> Decision:
        """Return who runs on what in the coming round."""
        done, free = settled(view)
        chosen = dict(done.chosen)
        others = [job for job in view.jobs if job.id not in chosen]
        every = ladders(others, free, rigid=True).rates.max(axis=2)
        able = every.any(axis=1)
        jobs = [others[j] for j in np.flatnonzero(able).tolist()]
        never = [others[j] for j in np.flatnonzero(~able).tolist()]
        if not jobs:
            return Decision(chosen, Reasons(lambda: {**done.reasons, **_all_never(view, never)}))
        rates = every[able]
        shares = self.shares(_problem(view, jobs, rates, free)).round(_DIGITS)
        priority = shares / self._received(jobs, len(free))
        # By type first, so that of equal pairs those of the first type win, jobs as they came.
        order = np.lexsort((-shares.T.ravel(), -priority.T.ravel()))
        sizes, runs = [requested(job) for job in jobs], (rates > 0).tolist()
        for pair in order.tolist():
            if not any(free):
                break
            g, index = divmod(pair, len(jobs))
            job, size = jobs[index], sizes[index]
            if size > free[g] or not runs[index][g] or job.id in chosen:
                continue
            free[g] -= size
            counts = single(len(free), g, size)
            chosen[job.id] = counts

        def reasons() -> dict[str, Reason]:
            told = {**done.reasons, **_all_never(view, never)}
            for index, job in enumerate(jobs):
                if (counts := chosen.get(job.id)) is None:
                    told[job.id] = Reason(
                        f"It should have {_in_shares(view, shares[index])}, and others are further"
                        " behind their shares."
                    )
                    continue
                g = int(np.argmax(counts))
                told[job.id] = _granted(
                    view, job, counts, float(rates[index, g]), shares[index], priority[index, g]
                )
            return told

        return Decision(chosen, Reasons(reasons))

    def _received(self, jobs: list[JobView], types: int) -> Array:
        """Return each job's part of the time that jobs have had on each type, (J, G).

        Every job is taken to have had half a round, so that new ones have a finite priority.
        """
        had = np.array([job.held_seconds or (0.0,) * types for job in jobs], dtype=np.float64)
        had += self.round_seconds / 2
        part: Array = had / had.sum(axis=0)
        return part


class Gavel(_Rounds):
    """Shares of time with the largest sum of throughputs in steps a second."""

    name = "gavel"

    def shares(self, problem: Problem) -> Array:
        """Return the shares of the largest sum of throughputs."""
        return max_sum(problem)


class GavelMaxMin(_Rounds):
    """Shares by least attained service: the slowest job, by its equal share, is made fastest."""

    name = "gavel-max-min"

    def shares(self, problem: Problem) -> Array:
        """Return the shares of the largest least throughput."""
        return max_min(problem)


class GavelMakespan(_Rounds):
    """Shares with which all jobs would be done soonest."""

    name = "gavel-makespan"

    def shares(self, problem: Problem) -> Array:
        """Return the shares of the shortest makespan."""
        return makespan(problem)


class GavelFtf(_Rounds):
    """Shares of the fairest finish times: the largest rho of a job is made smallest."""

    name = "gavel-ftf"

    def shares(self, problem: Problem) -> Array:
        """Return the shares of the smallest largest rho."""
        return finish_time_fairness(problem)


def _problem(view: View, jobs: list[JobView], rates: Array, free: list[int]) -> Problem:
    """Return the problem in steps where a job's steps are known, else in reference samples."""
    work = np.array([job.step_work or 1.0 for job in jobs])
    done = np.array([job.progress for job in jobs])
    known = np.array([job.remaining for job in jobs])
    unknown = np.maximum(done, rates.max(axis=1) * _UNKNOWN)
    remaining = np.where(np.isfinite(known), np.maximum(known, 1e-9 * unknown), unknown)
    return Problem(
        rates / work[:, None],
        np.array([requested(job) for job in jobs], dtype=np.float64),
        np.array(free, dtype=np.float64),
        np.array([job.weight for job in jobs]),
        remaining / work,
        done / work,
        np.array([view.now - job.submitted for job in jobs]),
    )


def _granted(
    view: View, job: JobView, counts: Counts, rate: float, shares: Array, priority: float
) -> Reason:
    seconds = job.remaining / rate if rate > 0 else math.inf
    text = f"{in_words(counts, view.types)}: it should have {_in_shares(view, shares)}."
    return Reason(text, Option(counts, rate, seconds, float(priority)))


def _in_shares(view: View, shares: Array) -> str:
    parts = [f"{x:.0%} of {name}" for x, name in zip(shares, view.types, strict=True) if x >= 0.005]
    return " + ".join(parts) or "no share of time"


def _all_never(view: View, jobs: list[JobView]) -> dict[str, Reason]:
    return {job.id: _never(view, job) for job in jobs}


def _never(view: View, job: JobView) -> Reason:
    return impossible(view, job) or Reason(
        f"{requested(job)} devices of one type are needed to run it, and no type has as many that"
        " it may use."
    )
