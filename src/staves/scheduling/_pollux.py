"""Pollux: the power mean of all jobs' speedups over their fair shares is made largest."""

from __future__ import annotations

import numpy as np

from staves.scheduling._ladders import Array, Ladders, decided, ladders, undominated
from staves.scheduling._policy import Policy
from staves.scheduling._settled import settled
from staves.scheduling._view import Decision, JobView, View
from staves.scheduling.heet._choose import Choices, choose

REALLOCATION_SECONDS = 30.0
"""What a change of devices is taken to cost; Pollux, OSDI '21, section 5.1."""

_GAP = 1e-4


class Pollux(Policy):
    """The fitness of Pollux, the power mean with p = -1 of jobs' speedups, exactly at its largest.

    After Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning"
    (OSDI '21, section 4.2). A job's speedup is its goodput over that on 1 / J of the cluster. For
    p = -1 the fitness is largest where the sum of 1 / speedup is smallest, and that is a sum over
    jobs: an integer programme finds in milliseconds what the paper's genetic search
    (`pollux-genetic`) looks for in seconds.

    Goodputs on other devices than a job has are multiplied by (age - restarts d) / (age + d),
    d = 30 s. A job has at most twice the devices that it ever had, and of one type: the paper's
    cluster has one only. A job that gets nothing counts as half the smallest speedup that any could
    have. That distributed jobs share no node is not asked for: policies do not choose nodes.
    """

    name = "pollux"
    job_kind = "adaptive"
    round_seconds = 60.0
    at_events = False

    def decide(self, view: View) -> Decision:
        """Return the decision of the largest fitness."""
        done, free = settled(view, pausing=True)
        jobs = [job for job in view.jobs if job.id not in done.chosen]
        weighed = Slowness.of(view, ladders(jobs, free))
        options = [undominated(cost) for cost in weighed.cost]
        tables = [np.eye(len(free), dtype=np.int64)[rows[:, 0]] * rows[:, 1:] for rows in options]
        gains = [
            weighed.nothing - cost[rows[:, 0], rows[:, 1]]
            for cost, rows in zip(weighed.cost, options, strict=True)
        ]
        result = choose(
            [
                Choices(table, gain, job.current is not None and job.guaranteed > 0, job.current)
                for job, table, gain in zip(jobs, tables, gains, strict=True)
            ],
            tuple(free),
            gap=_GAP,
        )
        chosen = {
            j: (int(options[j][row, 0]), int(options[j][row, 1]))
            for j, row in enumerate(result.rows)
            if row is not None
        }
        decision = weighed.decided(view, done, chosen)
        weighed_by_id = {
            job.id: (table, gain) for job, table, gain in zip(jobs, tables, gains, strict=True)
        }
        return Decision(
            decision.chosen, decision.reasons, result.value, result.bound, weighed_by_id
        )


class Slowness:
    """What each number of devices of each type counts for a job: 1 / speedup, to be small in sum.

    Args:
        ladders: of J jobs.
        cost: (J, G, N + 1); inf for what a job may not have.
    """

    def __init__(self, ladders: Ladders, cost: Array) -> None:
        self.ladders, self.cost = ladders, cost
        self.nothing = 2 * float(np.max(cost, where=np.isfinite(cost), initial=1.0))
        """What a job counts that gets nothing."""

    @classmethod
    def of(cls, view: View, ladders: Ladders) -> Slowness:
        """Return the costs of jobs with these goodputs in `view`."""
        rates = ladders.rates.copy()
        sizes = np.arange(rates.shape[2])
        for j, job in enumerate(ladders.jobs):
            if job.scale_limit is not None:
                rates[j][:, sizes > max(job.minimum, job.scale_limit)] = 0.0
            if job.current is not None:
                same = sizes[None, :] == np.array(job.current)[:, None]
                same &= sizes[None, :] == sum(job.current)
                rates[j][~same] *= reallocation_factor(view, job)
        fair = ladders.fair(view)
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.where(rates > 0, fair[:, None, None] / rates, np.inf)
        return cls(ladders, cost)

    def decided(self, view: View, done: Decision, chosen: dict[int, tuple[int, int]]) -> Decision:
        """Return the decision with reasons; `chosen` by the jobs' numbers: (type, devices)."""
        return decided(
            view,
            done,
            self.ladders.jobs,
            chosen,
            lambda j: (
                f"{1 / self.cost[j][chosen[j]]:.2g} times its speed on a fair share, and best for"
                " the mean of all jobs"
            ),
            lambda j: "The mean speedup of all jobs is larger if others have the devices.",
        )


def reallocation_factor(view: View, job: JobView) -> float:
    """Return what a change leaves of a job's goodput; OSDI '21, section 4.2.1.

    Young jobs change for nothing, as in the released code.
    """
    age, cost = view.now - job.submitted, REALLOCATION_SECONDS
    return max(age - job.restarts * cost, 0.0) / (age + cost) if age >= cost else 1.0
