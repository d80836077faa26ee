"""Themis: leases are auctioned among the jobs whose finish times are least fair."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._growing import Growing
from staves.scheduling._ladders import Array, Ladders, decided, ladders, undominated
from staves.scheduling._policy import Policy
from staves.scheduling._reasons import Reasons
from staves.scheduling._rigid import granted, still_fits
from staves.scheduling._settled import settled
from staves.scheduling._view import Decision, JobView, Reason, View
from staves.scheduling.heet._choose import Choices, Chosen, choose

FAIRNESS, LEASE = 0.8, 1200.0
"""The share of jobs that an auction leaves out, and the seconds of a lease; sections 5 and 8."""

_GAP = 1e-4


class Themis(Policy):
    """Auctions of free devices by finish-time fairness, rho: time shared over time alone.

    After Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling" (NSDI '20, sections 3
    to 5). rho of a job is the time from its submission to its end over that which it would have
    taken alone on 1 / J of the cluster. What a job has is leased. Devices that are free, or whose
    lease is over, are offered to the (1 - f) share of jobs with the worst rho. Their valuation of
    devices is 1 / rho with these; a partial allocation mechanism gives them what makes the product
    of valuations largest, of which each keeps the part c, the product of the others' valuations
    over what it were without that job: then nobody gains by telling a wrong rho. What that leaves
    goes to jobs that have nothing, the worst rho first, and then to who gains most.

    Devices of a job are of one type here. A job without any counts twice the worst rho that devices
    would give anybody.

    Args:
        fairness: f, in [0, 1).
        lease: seconds.
    """

    name = "themis"
    job_kind = "elastic"
    round_seconds = 60.0

    def __init__(self, fairness: float = FAIRNESS, lease: float = LEASE) -> None:
        self._fairness, self._lease = fairness, lease

    def decide(self, view: View) -> Decision:
        """Return what is leased, and the outcome of the auction of the rest."""
        done, free = settled(view, pausing=True)
        chosen, leased = dict(done.chosen), []
        for job in view.jobs:
            if job.id not in chosen and job.current is not None and self._leased(job):
                if not still_fits(job, free):
                    continue
                chosen[job.id] = job.current
                leased.append(job)
                free = [f - n for f, n in zip(free, job.current, strict=True)]
        jobs = [job for job in view.jobs if job.id not in chosen]
        bids = Bids.of(view, ladders(jobs, free))
        able = [j for j in np.argsort(-bids.late, kind="stable").tolist() if bids.able[j]]
        invited = able[: math.ceil(round((1 - self._fairness) * len(able), 9))]
        growing = Growing(bids.ladders, free)
        for j, (g, size) in bids.auction(invited, free).items():
            growing.hold(j, g, size)
        for j in able:
            if not growing.started[j]:
                growing.start(j)
        while (grows := growing.open & growing.started).any():
            at = np.flatnonzero(grows)
            growing.step(int(at[bids.gains(growing, at).argmax()]))
        return decided(
            view,
            Decision(chosen, Reasons(lambda: {**done.reasons, **_leased(view, leased)})),
            jobs,
            growing.chosen,
            lambda j: f"its finish time would be {bids.late[j]:.2g} times that of a fair share",
            lambda j: f"Others are treated less fairly; its rho is {bids.late[j]:.2g}.",
        )

    def _leased(self, job: JobView) -> bool:
        """Say whether the lease runs; one that is over is renewed unless the auction says other."""
        if math.isinf(job.unchanged) or job.unchanged < self._lease:
            return job.unchanged < self._lease
        return job.unchanged % self._lease >= (self.round_seconds or 0.0)


def _leased(view: View, jobs: Sequence[JobView]) -> dict[str, Reason]:
    return {job.id: granted(view, job, job.current or (), "its lease is not over") for job in jobs}


class Bids:
    """What jobs would pay: rho for any number of devices of any type.

    Args:
        ladders: of J jobs.
        rho: (J, G, N + 1); inf where a job may not have that.
        late: rho of each job if it had its fair share from now on, (J,).
    """

    def __init__(self, ladders: Ladders, rho: Array, late: Array) -> None:
        self.ladders, self.rho, self.late = ladders, rho, late
        self.able = (ladders.best > 0).tolist()
        """Whether anything runs the job, (J,)."""
        self.nothing = 2 * float(np.max(rho, where=np.isfinite(rho), initial=1.0))
        """rho of a job that gets nothing."""

    @classmethod
    def of(cls, view: View, ladders: Ladders) -> Bids:
        """Return the bids of the jobs on these ladders."""
        jobs = ladders.jobs
        elapsed = np.array([view.now - job.submitted for job in jobs])
        done = np.array([job.progress for job in jobs])
        known = np.array([job.remaining for job in jobs])
        left = np.where(np.isfinite(known), known, done)  # unknown: as long again
        fair = ladders.fair(view)
        sizes = np.arange(ladders.rates.shape[2])
        pause = np.zeros(ladders.rates.shape)
        for j, job in enumerate(jobs):
            had = np.array(job.current if job.current is not None else (0,) * len(view.types))
            cost = job.start_pause if job.current is None else job.resize_pause
            pause[j] = np.where((sizes == had[:, None]) & (sizes == had.sum()), 0.0, cost)
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.maximum((done + left) / fair, 1.0)
            ahead = np.where(ladders.rates > 0, left[:, None, None] / ladders.rates, np.inf)
            rho = (elapsed[:, None, None] + pause + ahead) / alone[:, None, None]
            late = (elapsed + left / fair) / alone
        rho = np.where(ladders.rates > 0, np.maximum(rho, 1e-9), np.inf)
        return cls(ladders, rho, np.nan_to_num(late, nan=0.0, posinf=0.0))

    def auction(self, invited: list[int], free: list[int]) -> dict[int, tuple[int, int]]:
        """Return what the invited jobs keep of what they win: (type, devices) by their numbers."""
        won = self.won(invited, free)
        kept = {}
        for j, (g, size) in won.items():
            others = [i for i in invited if i != j]
            with_it = sum(self.worth(i, won) for i in others)
            without = self.won(others, free)
            part = math.exp(min(0.0, with_it - sum(self.worth(i, without) for i in others)))
            rates = self.ladders.rates[j, g, : math.floor(part * size + 1e-9) + 1]
            if (rates > 0).any():
                kept[j] = g, int(np.flatnonzero(rates)[-1])
        return kept

    def won(self, invited: list[int], free: list[int]) -> dict[int, tuple[int, int]]:
        """Return what makes the product of the invited jobs' valuations largest."""
        options = [undominated(self.rho[j]) for j in invited]
        types = np.eye(len(free), dtype=np.int64)
        result: Chosen = choose(
            [
                Choices(
                    types[rows[:, 0]] * rows[:, 1:],
                    np.log(self.nothing / self.rho[j, rows[:, 0], rows[:, 1]]),
                )
                for j, rows in zip(invited, options, strict=True)
            ],
            tuple(free),
            gap=_GAP,
        )
        return {
            j: (int(options[i][row, 0]), int(options[i][row, 1]))
            for i, (j, row) in enumerate(zip(invited, result.rows, strict=True))
            if row is not None
        }

    def worth(self, j: int, won: dict[int, tuple[int, int]]) -> float:
        """Return the logarithm of a job's valuation of what it won."""
        return -math.log(self.rho[j][won[j]] if j in won else self.nothing)

    def gains(self, growing: Growing, at: NDArray[np.int64]) -> Array:
        """Return how much the log of the valuation of jobs `at` grows by a device of their step."""
        now = self.rho[at, growing.kind[at], growing.size[at]]
        then = self.rho[at, growing.kind[at], growing.next_size[at]]
        gains: Array = np.log(now / then) / (growing.next_size[at] - growing.size[at])
        return gains
