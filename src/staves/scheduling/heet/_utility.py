"""What each configuration of each job is worth: the job's own delay, and that of those behind it.

The cost-to-go of the cluster is the sum over jobs of P_j, the job's own critical path, plus L_j
W_j: the jobs behind it wait for its work. What a configuration takes off it each second is its
value. This is the mix of heSRPT (Berg, Vesilo, Harchol-Balter, arXiv 1903.09346), with the rank
taken from the queue: for a lone job pure speed, for a long queue the shortest remaining first.

No job waits for ever. A job j that has nothing may be given its minimum of m devices of one type in
place of at most m jobs that hold these. On them it is worth w_j (1 + (t / tau)^2) s at least, after
waiting t seconds: w_j its weight, tau the wait target, s = (x P_j)^a what it gains there. A job k
that has waited t_k is worth w_k (1 + (t_k / tau)^2) h^a (1 + rank (J - 1)) at most, of J active
jobs, h the hysteresis, since x_k P_k <= h and W_k <= P_k; times 1 + `deadline` if it has one. An
exact decision leaves j waiting no longer than m such jobs are worth more, so with A^2 = m (w_k /
w_j) h^a (1 + rank (J - 1)) / s, at its greatest among them, j starts no later than one round after

* tau sqrt(A^2 (1 + (V / tau)^2) - 1), where none of those that hold its devices has waited
  longer than V;
* A (tau + J S), where none of them holds devices for longer than S seconds in all: whoever is worth
  more than j, once t > A tau, has itself waited for sqrt((t / A)^2 - tau^2) seconds, and of the J
  jobs that were there so long ago the last one ends within J S.

Devices that are guaranteed to others, or held by jobs that cannot be resized, do not count; nor do
any beyond the quota of the job's tenant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import Table
from staves.scheduling._view import JobView, View
from staves.scheduling.heet._configurations import Ways, row_of
from staves.scheduling.heet._offers import Offer, all_worth, certainty, offer

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]

UNKNOWN = 600.0
"""Seconds that a job of unknown work is taken to last at least."""


@dataclass(frozen=True)
class Weights:
    """What may be tuned.

    Args:
        hysteresis: factor on what a job has already. 1.03 where jobs change in place; where a
            change means checkpoint and restart, see `RESTARTS`.
        horizon: seconds within which a pause must pay off; never below two pauses.
        rank: of the delay of the jobs behind, beside a job's own; 0: each counts for itself only.
        wait_target: seconds of waiting after which a job counts double.
        exponent: of the own delay.
        deadline: how much more what meets a job's deadline counts once there is no time left to
            wait. Nothing is added while the job could wait for `deadline_slack` times its own path,
            or for the horizon, and meet it all the same; nor where nothing meets it any more.
        deadline_slack: see there.
        caution: standard deviations of ln(rate) by which a configuration counts for less than it is
            believed to give: it is weighed as rate x exp(-caution x log_std), a lower confidence
            bound. Of many guesses the greatest is more often one that is too high than one that is
            too low (the optimizer's curse: Smith and Winkler, Manage. Sci. 52(3), 2006), and what a
            job runs on is measured: it should not leave that for a guess alone. Where nothing tells
            how sure a rate is, it counts as it is. By default all do: with learned beliefs and
            changes in place, on the tuning workloads, 1 moved average completion by -1.5 to 1.2 %,
            which is noise, and left out 11 to 20 % of the changes.
    """

    hysteresis: float = 1.03
    horizon: float = 600.0
    rank: float = 1.0
    wait_target: float = 3600.0
    exponent: float = 0.8
    deadline: float = 3.0
    deadline_slack: float = 0.5
    caution: float = 0.0


RESTARTS = Weights(hysteresis=1.15)
"""What is asked of a change that means checkpoint and restart.

On the tuning workloads at the published pauses, over Sia, average, p99 and makespan: 0.81, 1.02 and
1.03 at 1.10 and at 1.13; 0.81, 0.97 and 1.00 at 1.15; 0.80, 0.98 and 1.03 at 1.20; 0.81, 0.99 and
1.05 at 1.25. One workload's p99 is that of its second-worst job, and moves by a tenth for nothing.
"""


@dataclass(frozen=True, eq=False)
class Weighed:
    """A job's configurations and what they are worth, one row each, C rows.

    Attributes:
        job: the job.
        table: counts, (C, G); every row runs the job.
        rates: reference samples a second, (C,), above zero.
        counted: as what they count, (C,): see `Weights.caution`.
        seconds: to the job's end; inf where its work is not known, (C,).
        pause: seconds that the job loses by getting there, (C,).
        utility: (C,), above zero.
        work: W_j, in seconds of the whole cluster.
        behind: L_j, how many active jobs have more work left.
    """

    job: JobView
    table: Table
    rates: Array
    counted: Array
    seconds: Array
    pause: Array
    utility: Array
    work: float
    behind: int


def relative_speeds(jobs: Sequence[JobView], types: int) -> Array:
    """Return pi_g, (G,): the median over jobs of one device's rate, the job's fastest being 1."""
    one_each = np.eye(types, dtype=np.int64)
    speeds = np.ones(types)
    shares: dict[int, Array] = {}  # jobs alike share their rates
    for job in jobs:
        if id(job.rates) not in shares:
            rates = job.rates(one_each)
            most = rates.max(initial=0.0)
            shares[id(job.rates)] = np.where(rates > 0, rates / (most or 1.0), np.nan)
    if shares:
        ranked = np.sort([shares[id(job.rates)] for job in jobs], axis=0)  # nan comes last
        known = (~np.isnan(ranked)).sum(axis=0)
        for g in np.flatnonzero(known).tolist():
            middle = ranked[(known[g] - 1) // 2 : known[g] // 2 + 1, g]
            speeds[g] = middle.sum() / len(middle)
    return speeds


def weigh(view: View, tables: Sequence[Table], weights: Weights) -> list[Weighed]:
    """Return the utility of all configurations of all jobs.

    Args:
        view: the jobs, in order.
        tables: for each job its configurations, (C, G); rows that do not run it are dropped.
        weights: what may be tuned.
    """
    offers = []
    for job, table in zip(view.jobs, tables, strict=True):
        rates = job.rates(table) if len(table) else np.zeros(0)
        nobody_beats = np.zeros((len(table),) * 2, dtype=bool)
        ways = Ways(table, row_of(table, job.current), nobody_beats)
        offers.append(offer(ways, rates, certainty(job, table, weights.caution)))
    weighing = Weighing(view, offers, weights)
    return [weighing.of(index) for index in range(len(offers))]


def remaining_seconds(job: JobView, table: Table, rates: Array) -> Array:
    """Return R_j(c), (C,).

    A job of unknown work is taken to last as long again as it has had (least attained service
    first; the rule for heavy-tailed work), on its fastest configuration.
    """
    seconds: Array = _work_left(job, table, rates) / rates
    return seconds


def _work_left(job: JobView, table: Table, rates: Array) -> float:
    """Return the reference samples that are left, known or guessed; 0 where nothing runs it.

    Steps of a fixed batch are worth more and more of them, but pass at one speed: what is left of
    these counts as it would at what a step is worth now.
    """
    if len(rates) and job.step_work and math.isfinite(job.steps_left):
        return job.steps_left * job.step_work
    if math.isfinite(job.remaining) or not len(rates):
        return job.remaining if len(rates) else 0.0
    fastest = int(rates.argmax())
    return max(UNKNOWN, job.attained / float(table[fastest].sum())) * float(rates[fastest])


@dataclass(frozen=True, eq=False)
class _Standing:
    """What utilities take from jobs and from their places among the others, (J,) each.

    Those of one job that nothing can run are nan, and it is behind nobody.
    """

    top: Array  # the greatest rate
    path: Array  # P_j
    work: Array  # W_j
    behind: Array  # L_j
    weight: Array
    pause: Array  # of a change
    delay: Array  # until other devices are at work
    held: Array  # the rate meanwhile
    pause_left: Array
    due: Array  # seconds to its deadline; inf for none
    urgency: Array  # what meeting that counts more

    def of(self, jobs: Rows) -> _Standing:
        return _Standing(*(getattr(self, each.name)[jobs] for each in fields(self)))


class Weighing:
    """All jobs of a view, weighed beside each other.

    Args:
        view: the jobs.
        offers: what each of them may have.
        weights: what may be tuned.

    Attributes:
        table: what is worth weighing of all jobs, one after the other, (N, G).
        owner: whose each row is, (N,).
        mine: whether the job has it already, (N,).
        utility: what it is worth, (N,).
    """

    def __init__(self, view: View, offers: Sequence[Offer], weights: Weights) -> None:
        self._jobs, self._offers, self._weights = view.jobs, list(offers), weights
        those = [job for job, one in zip(view.jobs, offers, strict=True) if one.able]
        self._speeds = relative_speeds(those, len(view.types))
        cluster = float(self._speeds @ view.capacity)
        self._cluster = max(cluster, float(self._speeds.min(initial=1.0)))
        longest = max(
            (max(job.start_pause, job.resize_pause + job.resize_delay) for job in those),
            default=0.0,
        )
        self._horizon = max(weights.horizon, 2 * longest)
        self._ranked: Array | None = None  # W of all jobs, ascending
        self.table, rates, self.mine, self.owner = all_worth(offers, len(view.types))
        self._now = view.now
        self._standing = self._stand(view.jobs, offers, (self.table, rates, self.owner, self.mine))
        self.utility = self._utility(self._standing.of(self.owner), rates, self.mine)

    @property
    def best(self) -> Array:
        """The greatest utility of each job, (J,); 0 of one that nothing runs."""
        best = np.zeros(len(self._jobs))
        np.maximum.at(best, self.owner, self.utility)
        return best

    def of(self, index: int) -> Weighed:
        """Return all configurations of one job."""
        job, one = self._jobs[index], self._offers[index]
        standing = self._standing.of(np.array([index]))
        mine = np.arange(len(one.rates)) == one.current
        pause = _lost(standing, one.counted, mine)
        utility = self._utility(standing, one.counted, mine)
        work, behind = float(standing.work[0]), int(standing.behind[0])
        seconds = job.remaining / one.rates
        return Weighed(
            job, one.table, one.rates, one.counted, seconds, pause, utility, work, behind
        )

    def anew(self, index: int, one: Offer) -> Weighed:
        """Let a job have another offer, and return what it is worth among the others as before."""
        nobody, whose = (
            np.zeros(len(one.rates), dtype=bool),
            np.zeros(len(one.rates), dtype=np.int64),
        )
        rows = one.table, one.counted, whose, nobody
        self._offers[index] = one
        changed = self._stand([self._jobs[index]], [one], rows)
        for each in fields(changed):
            getattr(self._standing, each.name)[index] = getattr(changed, each.name)[0]
        return self.of(index)

    def _stand(
        self,
        jobs: Sequence[JobView],
        offers: Sequence[Offer],
        rows: tuple[Table, Array, Rows, Mask],
    ) -> _Standing:
        facts = [
            (
                job.weight * (1 + (job.waiting / self._weights.wait_target) ** 2),
                *_change(job),
                _rate_meanwhile(job, one),
                job.pause_left,
                _work_left(job, one.table, one.counted),
                job.deadline - self._now,
            )
            for job, one in zip(jobs, offers, strict=True)
        ]
        weight, pause, delay, held, left, remaining, due = (
            np.array(facts, dtype=np.float64).reshape(-1, 7).T
        )
        table, rates, owner, mine = rows
        seconds = remaining[owner] / rates
        cost = np.zeros(len(rates))
        for speed, counts in zip(self._speeds.tolist(), table.T, strict=True):
            cost += speed * counts
        begin = np.flatnonzero(np.diff(owner, prepend=-1))
        top, path, work, soonest = np.full((4, len(jobs)), np.nan)
        behind, urgency = np.zeros((2, len(jobs)))
        standing = _Standing(
            top, path, work, behind, weight, pause, delay, held, left, due, urgency
        )
        if len(begin):
            some = owner[begin]
            top[some] = np.maximum.reduceat(rates, begin)
            path[some] = np.maximum(np.minimum.reduceat(seconds, begin), 1.0)
            work[some] = np.minimum.reduceat(seconds * cost, begin) / self._cluster
            ends = seconds + _lost(standing.of(owner), rates, mine)
            soonest[some] = np.minimum.reduceat(ends, begin)
        if self._ranked is None:
            self._ranked = np.sort(work[~np.isnan(work)])
        ahead = np.searchsorted(self._ranked, work, side="right").astype(np.float64)
        behind[:] = len(self._ranked) - ahead
        slack = due - soonest
        patience = np.maximum(self._horizon, self._weights.deadline_slack * path)
        urgency[:] = self._weights.deadline * np.maximum(1 - slack / patience, 0.0)
        urgency[~(slack >= 0)] = 0.0
        return standing

    def _utility(self, standing: _Standing, rates: Array, mine: Mask) -> Array:
        path = standing.path
        seconds = path * standing.top / rates
        pause = _lost(standing, rates, mine)
        completion = np.where(
            seconds + pause > self._horizon,
            np.maximum(self._horizon - pause, 0.02 * self._horizon) / self._horizon / seconds,
            1 / (seconds + pause),
        )
        completion = np.where(mine, completion * self._weights.hysteresis, completion)
        utility: Array = (
            standing.weight
            * (completion * path) ** self._weights.exponent
            * (1 + self._weights.rank * standing.behind * standing.work / path)
        )
        if standing.urgency.any():
            utility *= 1 + standing.urgency * (seconds + pause <= standing.due)
        return utility


def _change(job: JobView) -> tuple[float, float]:
    """Return the seconds that a change stops the job for, and those until it is in force."""
    if job.current is None:
        return job.start_pause, 0.0
    return job.resize_pause, job.resize_delay


def _rate_meanwhile(job: JobView, one: Offer) -> float:
    """Return how fast it trains while other devices are on their way to it."""
    if one.current < 0 or job.pause_left > 0:
        return 0.0
    return float(one.counted[one.current])


def _lost(standing: _Standing, rates: Array, mine: Mask) -> Array:
    """Return the seconds that jobs lose by getting to configurations of these rates, (N,).

    They are counted in the time of the configuration: of the delay, what is trained meanwhile takes
    held / rate there.
    """
    on_the_way = standing.delay * np.maximum(1 - standing.held / rates, 0.0)
    lost: Array = np.where(mine, standing.pause_left, standing.pause + on_the_way)
    return lost
