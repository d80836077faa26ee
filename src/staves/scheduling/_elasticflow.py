"""ElasticFlow: what deadlines need at least, and the rest where it is used best."""

from __future__ import annotations

import math
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._growing import Growing, known_work
from staves.scheduling._ladders import Array, Ladders, decided, ladders
from staves.scheduling._policy import Policy
from staves.scheduling._settled import settled
from staves.scheduling._view import Decision, JobView, View

SLOT_SECONDS = 60.0
"""Of the plan; longer where deadlines are far away."""

_MOST_SLOTS = 512

Planned = tuple[int, tuple[int, NDArray[np.int64]]]
"""A job's number, its type, and its devices in each slot, (T,)."""


class ElasticFlow(Policy):
    """Minimum satisfactory shares of jobs with deadlines, then devices by marginal return.

    After Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep
    Learning" (ASPLOS '23, section 4). Time is cut into slots. A job's minimum satisfactory share is
    the smallest number of devices with which it meets its deadline in what earlier deadlines leave
    free of each slot (progressive filling). Jobs are admitted in the order in which they came: one
    whose deadline, or whose admission would break another's, is not. What shares leave now goes to
    who uses it best: the speed that a device adds over that which one of the job's share has.

    The paper drops who is not admitted; here they wait for what is left, as jobs without a deadline
    do. Sizes are powers of two, of one type. A job in a pause stays as it is. It decides when a job
    comes or ends, as the paper's system does: shares found anew each minute would change by a
    device here and there, and every change is a restart.
    """

    name = "elasticflow"
    job_kind = "elastic"
    round_seconds = None

    def decide(self, view: View) -> Decision:
        """Return the shares of the present slot, and what is added to them."""
        done, free = settled(view, pausing=True)
        jobs = [job for job in view.jobs if job.id not in done.chosen]
        steps = in_powers(ladders(jobs, free))
        plan = Plan(view.now, steps, free, SLOT_SECONDS)
        admitted = plan.admitted()
        growing = Growing(steps, free)
        for j, (g, shares) in admitted.items():
            if shares[0]:
                growing.hold(j, g, int(shares[0]))
        first = sorted(range(len(jobs)), key=lambda j: (j not in admitted, jobs[j].deadline))
        for j in first:
            if not growing.started[j]:
                growing.start(j)
        each = growing.rate / np.maximum(1, growing.size)  # of a device of the job's share
        while (grows := growing.open & growing.started).any():
            at = np.flatnonzero(grows)
            added = growing.next_rate[at] - growing.rate[at]
            added /= growing.next_size[at] - growing.size[at]
            growing.step(int(at[(added / each[at]).argmax()]))
        return decided(
            view,
            done,
            jobs,
            growing.chosen,
            lambda j: (
                "it meets its deadline"
                if j in admitted
                else "what deadlines leave, where it is used best"
            ),
            lambda j: (
                "It can wait, and still meet its deadline."
                if j in admitted
                else "Jobs with deadlines, and those that came before it, have the devices."
            ),
        )


class Plan:
    """Which devices jobs need in which slot to meet their deadlines.

    Args:
        now: seconds of the view's clock.
        steps: of J jobs.
        free: devices of each type.
        slot: seconds; longer where the last deadline is more than 512 of them away.
    """

    def __init__(self, now: float, steps: Ladders, free: list[int], slot: float) -> None:
        self._now, self._steps, self._jobs = now, steps, steps.jobs
        ends = [job.deadline for job in self._jobs if math.isfinite(job.deadline)]
        span = max([0.0, *(end - now for end in ends)])
        self._slot = max(slot, span / _MOST_SLOTS)
        slots = max(1, math.floor(span / self._slot))
        self._room = np.repeat(np.array(free, dtype=np.int64)[:, None], slots, axis=1)

    def admitted(self) -> dict[int, tuple[int, NDArray[np.int64]]]:
        """Return for each job that is admitted its type and its devices in each slot, (T,)."""
        hopeful = [
            j
            for j, job in enumerate(self._jobs)
            if math.isfinite(job.deadline) and self.share(j, self._room) is not None
        ]
        together = self._filled([], sorted(hopeful, key=self._deadline))
        if together is not None:
            return dict(together)
        kept: list[Planned] = []
        for j in hopeful:  # as they came; what is due before it stays as it is
            at = bisect_right(kept, self._deadline(j), key=lambda one: self._deadline(one[0]))
            with_it = self._filled(kept[:at], [j, *(other for other, _ in kept[at:])])
            kept = kept if with_it is None else with_it
        return dict(kept)

    def _deadline(self, j: int) -> float:
        return self._jobs[j].deadline

    def _filled(self, before: list[Planned], jobs: list[int]) -> list[Planned] | None:
        """Return `before` and the shares of further jobs, in this order, the earliest deadline
        first; None where one is late."""
        room, plan = self._room.copy(), list(before)
        for _, (g, shares) in before:
            room[g] -= shares
        for j in jobs:
            found = self.share(j, room)
            if found is None:
                return None
            plan.append((j, found))
            room[found[0]] -= found[1]
        return plan

    def share(self, j: int, room: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]] | None:
        """Return a job's type and its devices in each slot, (T,), at its smallest share.

        Args:
            j: its number.
            room: devices of each type that are free in each slot, (G, T).

        Returns:
            None where no share is satisfactory. Of types the one that it has comes first, then the
            one that is fastest at its best.
        """
        job, rates, left = self._jobs[j], self._steps.rates[j], known_work(self._jobs[j])
        slots = min(room.shape[1], math.floor((job.deadline - self._now) / self._slot + 1e-9))
        if slots <= 0 or not math.isfinite(job.remaining):
            return None
        for g in _preferred(job, rates):
            best = np.maximum.accumulate(rates[g])
            sizes = np.flatnonzero(rates[g] >= np.where(best > 0, best, np.inf))
            if not len(sizes):
                continue
            # The largest size that is no more than so many devices and helps; 0 where none is.
            fits = np.zeros(len(best), dtype=np.int64)
            fits[sizes] = sizes
            fits = np.maximum.accumulate(fits)
            there = np.minimum(room[g, :slots], len(best) - 1)
            shares = fits[np.minimum(sizes[:, None], there[None, :])]  # (K, T)
            work = rates[g][shares] * self._slot
            work[:, 0] -= rates[g][shares[:, 0]] * np.minimum(self._slot, self._pause(job, g))
            total = np.cumsum(work, axis=1)
            enough = np.flatnonzero(total[:, -1] >= left * (1 - 1e-9))
            if len(enough):
                row = int(enough[0])
                used = int(np.flatnonzero(total[row] >= left * (1 - 1e-9))[0]) + 1
                shares[row, used:] = 0
                whole = np.zeros(room.shape[1], dtype=np.int64)
                whole[:slots] = shares[row]
                return g, whole
        return None

    def _pause(self, job: JobView, g: int) -> float:
        if job.current is None:
            return job.start_pause
        return job.pause_left if job.current[g] else job.resize_pause


def _preferred(job: JobView, rates: Array) -> list[int]:
    has = np.array(job.current if job.current is not None else (0,) * len(rates)) > 0
    return list(np.lexsort((-rates.max(axis=1), ~has)).tolist())


def in_powers(steps: Ladders) -> Ladders:
    """Return the ladders of powers of two, and of the fewest devices that run a job."""
    rates = steps.rates.copy()
    sizes = np.arange(rates.shape[2])
    other = (sizes & (sizes - 1)) != 0
    least = np.where((rates > 0).any(axis=2), (rates > 0).argmax(axis=2), 0)
    rates[other & (sizes != least[:, :, None])] = 0.0
    return Ladders(steps.jobs, rates)
