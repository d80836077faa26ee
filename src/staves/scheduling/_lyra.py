"""Lyra: what jobs need first, the shortest first; then elastic growth by a knapsack."""

from __future__ import annotations

import numpy as np

from staves.scheduling._configurations import Table
from staves.scheduling._growing import Growing
from staves.scheduling._ladders import Array, decided, ladders
from staves.scheduling._policy import Policy
from staves.scheduling._settled import settled
from staves.scheduling._view import Decision, JobView, View
from staves.scheduling.heet._choose import Choices, choose

_GAP = 1e-4


class Lyra(Policy):
    """Base demands, shortest first and without preemption; then the knapsack of time saved.

    After Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters" (EuroSys '23, section 5).
    First every job has its base demand, its minimum: running jobs keep theirs, and waiting ones
    start in order of their time on it. Then what is free goes to elastic jobs in a multiple-choice
    knapsack: an item is a job at one size, its weight the devices beyond the base, its value the
    seconds that it would end earlier. The pause for a change counts. A job is on one type, and
    running ones stay on theirs. The paper's other half, servers lent by an inference cluster, is
    nodes that come and go, which any policy here copes with. A job in a pause stays as it is.
    """

    name = "lyra"
    job_kind = "elastic"
    round_seconds = 60.0
    at_events = False

    def decide(self, view: View) -> Decision:
        """Return base demands, and what the knapsack adds."""
        done, free = settled(view, pausing=True)
        jobs = [job for job in view.jobs if job.id not in done.chosen]
        growing = Growing(ladders(jobs, free), free)
        waiting = []
        for j, job in enumerate(jobs):
            if not _stays(growing, j, job):
                waiting.append(j)
        seconds = growing.work / np.where(growing.next_rate > 0, growing.next_rate, 1.0)
        for j in sorted(waiting, key=lambda j: (jobs[j].current is None, seconds[j])):
            growing.start(j)
        base = growing.chosen
        sized = dict(base)
        items = [_items(growing, j) for j in base]
        result = choose(
            [Choices(table, saved) for table, saved in items],
            tuple(growing.free.tolist()),
            gap=_GAP,
        )
        for j, (table, _), row in zip(base, items, result.rows, strict=True):
            if row is not None:
                g, size = base[j]
                sized[j] = g, size + int(table[row, g])
        return decided(
            view,
            done,
            jobs,
            sized,
            lambda j: (
                f"its base, and {sized[j][1] - base[j][1]} more where they save most time"
                if sized[j] != base[j]
                else "its base demand"
            ),
            lambda j: "The bases of running and of shorter jobs come first.",
        )


def _stays(growing: Growing, j: int, job: JobView) -> bool:
    """Let a running job have the base on its type; say whether it could."""
    if job.current is None:
        return False
    used = [g for g, n in enumerate(job.current) if n]
    if len(used) != 1:
        return False
    least = growing.least(j, used[0])
    if least is None or least > growing.free[used[0]]:
        return False
    growing.hold(j, used[0], least)
    return True


def _items(growing: Growing, j: int) -> tuple[Table, Array]:
    """Return how a job might grow: devices beyond its base, (C, G), and seconds saved, (C,)."""
    g, base = int(growing.kind[j]), int(growing.size[j])
    rates = growing.ladders.rates[j, g]
    job = growing.ladders.jobs[j]
    sizes = base + rates[base : base + int(growing.free[g]) + 1].nonzero()[0]
    pause = np.zeros(len(sizes))
    if job.current is not None:
        pause[sizes != job.current[g]] = job.resize_pause
    seconds = growing.work[j] / rates[sizes] + pause
    saved = seconds[0] - seconds
    worth = saved > 0
    table = np.zeros((int(worth.sum()), len(growing.free)), dtype=np.int64)
    table[:, g] = sizes[worth] - base
    return table, saved[worth]
