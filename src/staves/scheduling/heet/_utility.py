"""What each configuration of each job is worth: the job's own delay, and that of those behind it.

The cost-to-go of the cluster is the sum over jobs of P_j, the job's own critical path, plus L_j
W_j: the jobs behind it wait for its work. What a configuration takes off it each second is its
value. This is the mix of heSRPT (Berg, Vesilo, Harchol-Balter, arXiv 1903.09346), with the rank
taken from the queue: for a lone job pure speed, for a long queue the shortest remaining first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import Table
from staves.scheduling._view import Counts, JobView, View

Array = NDArray[np.float64]

HORIZON = 600.0
"""Seconds within which a pause must pay off; never below two pauses."""

UNKNOWN = 600.0
"""Seconds that a job of unknown work is taken to last at least."""


@dataclass(frozen=True)
class Weights:
    """What may be tuned.

    Args:
        hysteresis: factor on what a job has already. 1.03 where jobs change in place; 1.10 where a
            change means checkpoint and restart.
        wait_target: seconds of waiting after which a job counts double.
        exponent: of the own delay.
    """

    hysteresis: float = 1.03
    wait_target: float = 3600.0
    exponent: float = 0.8


@dataclass(frozen=True, eq=False)
class Weighed:
    """A job's configurations and what they are worth, one row each, C rows.

    Attributes:
        job: the job.
        table: counts, (C, G); every row runs the job.
        rates: reference samples a second, (C,), above zero.
        seconds: to the job's end; inf where its work is not known, (C,).
        utility: (C,), above zero.
        work: W_j, in seconds of the whole cluster.
        behind: L_j, how many active jobs have more work left.
    """

    job: JobView
    table: Table
    rates: Array
    seconds: Array
    utility: Array
    work: float
    behind: int


def relative_speeds(jobs: Sequence[JobView], types: int) -> Array:
    """Return pi_g, (G,): the median over jobs of one device's rate, the job's fastest being 1."""
    one_each = np.eye(types, dtype=np.int64)
    shares = []
    for job in jobs:
        rates = job.rates(one_each)
        if rates.max(initial=0.0) > 0:
            shares.append(np.where(rates > 0, rates / rates.max(), np.nan))
    speeds = np.ones(types)
    if shares:
        table = np.array(shares)
        known = ~np.isnan(table).all(axis=0)
        speeds[known] = np.nanmedian(table[:, known], axis=0)
    return speeds


def weigh(view: View, tables: Sequence[Table], weights: Weights) -> list[Weighed]:
    """Return the utility of all configurations of all jobs.

    Args:
        view: the jobs, in order.
        tables: for each job its configurations, (C, G); rows that do not run it are dropped.
        weights: what may be tuned.
    """
    able = [job for job, table in zip(view.jobs, tables, strict=True) if len(table)]
    speeds = relative_speeds(able, len(view.types))
    cluster = float(speeds @ view.capacity)
    pauses = [max(job.start_pause, job.resize_pause) for job in able]
    horizon = max(HORIZON, 2 * max(pauses, default=0.0))
    running = []
    for job, table in zip(view.jobs, tables, strict=True):
        rates = job.rates(table) if len(table) else np.zeros(0)
        running.append((table[rates > 0], rates[rates > 0]))
    work = np.array(
        [
            _work(job, table, rates, speeds, cluster)
            for job, (table, rates) in zip(view.jobs, running, strict=True)
        ]
    )
    ranked = np.sort(work)
    result = []
    for job, (table, rates), own in zip(view.jobs, running, work.tolist(), strict=True):
        behind = 0 if math.isnan(own) else int((ranked > own).sum())
        utility = _utility(job, table, rates, own, behind, horizon, weights)
        result.append(Weighed(job, table, rates, job.remaining / rates, utility, own, behind))
    return result


def remaining_seconds(job: JobView, table: Table, rates: Array) -> Array:
    """Return R_j(c), (C,).

    A job of unknown work is taken to last as long again as it has had (least attained service
    first; the rule for heavy-tailed work), on its fastest configuration.
    """
    remaining = job.remaining
    if math.isinf(remaining):
        fastest = int(rates.argmax())
        again = max(UNKNOWN, job.attained / float(table[fastest].sum()))
        remaining = again * float(rates[fastest])
    seconds: Array = remaining / rates
    return seconds


def _work(job: JobView, table: Table, rates: Array, speeds: Array, cluster: float) -> float:
    """Return W_j, cluster-seconds; nan for a job that nothing can run: it is behind nobody."""
    if not len(table):
        return math.nan
    return float((remaining_seconds(job, table, rates) * (table @ speeds)).min()) / max(
        cluster, float(speeds.min())
    )


def _utility(
    job: JobView,
    table: Table,
    rates: Array,
    work: float,
    behind: int,
    horizon: float,
    weights: Weights,
) -> Array:
    if not len(table):
        return np.zeros(0)
    path = max(1.0, float(remaining_seconds(job, table, rates).min()))
    seconds = path * float(rates.max()) / rates
    current = _is(table, job.current)
    running = job.resize_pause if job.current is not None else job.start_pause
    pause = np.where(current, job.pause_left, running)
    completion = np.where(
        seconds + pause > horizon,
        np.maximum(horizon - pause, 0.02 * horizon) / horizon / seconds,
        1 / (seconds + pause),
    )
    completion = np.where(current, completion * weights.hysteresis, completion)
    weight = job.weight * (1 + (job.waiting / weights.wait_target) ** 2)
    utility: Array = weight * (completion * path) ** weights.exponent * (1 + behind * work / path)
    return utility


def _is(table: Table, counts: Counts | None) -> NDArray[np.bool_]:
    if counts is None:
        return np.zeros(len(table), dtype=bool)
    same: NDArray[np.bool_] = (table == np.array(counts)).all(axis=1)
    return same
