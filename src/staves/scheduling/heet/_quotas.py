"""Quotas in the decision: each that could be exceeded is one more capacity beside the types'.

A configuration takes as much of its tenant's quota as it has devices: one more column of the
counts. So what is decided exactly, priced and traded stays so, and has its bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import Table
from staves.scheduling._quotas import room
from staves.scheduling._view import Counts, View

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


def within_quotas(view: View) -> View:
    """Return the view with no job's maximum above what its tenant's quota leaves it at most.

    Jobs that could have more than that are other objects than before. A job that is guaranteed
    devices may at least keep what it has.
    """
    if not view.quotas:
        return view
    left = _left(view)
    jobs = []
    for job in view.jobs:
        most = left.get(job.tenant, job.maximum)
        if job.current is not None and job.guaranteed:
            most = max(most, sum(job.current), job.minimum)
        same = job.pinned or job.maximum <= most
        jobs.append(job if same else replace(job, maximum=most))
    return replace(view, jobs=tuple(jobs))


@dataclass(frozen=True, eq=False)
class Capacities:
    """What configurations take, and what there is of it.

    Attributes:
        counts: devices of each type, and then of each tenant's quota, (C, G + Q).
        capacity: of these, (G + Q,).
        tenants: whose the quotas are, (Q,): those that could be exceeded.
        kept: of jobs that must have something, rows that they can all have together.
    """

    counts: Table
    capacity: Rows
    tenants: tuple[str, ...]
    kept: Rows

    def dues(self, prices: NDArray[np.float64]) -> dict[str, float]:
        """Return what a device of each tenant's quota costs, of all prices, (G + Q,)."""
        count = len(self.tenants)
        return dict(zip(self.tenants, prices[len(prices) - count :].tolist(), strict=True))


def capacities(
    view: View, available: Counts, table: Table, owner: Rows, must: Mask, mine: Rows
) -> Capacities:
    """Return the capacities of one decision, those of the quotas among them.

    Where jobs that must have something need more than a quota, they may have that, on the fewest
    devices that each can be given of what it has; nothing is left for others of the tenant then.

    Args:
        view: the jobs, `within_quotas`.
        available: devices of each type that may be given out, (G,).
        table: configurations, (C, G).
        owner: the number of each one's job, (C,), ascending.
        must: of each job, whether it must have something, (J,); it has a row then.
        mine: rows that jobs have already.
    """
    kept = mine[must[owner[mine]]]
    capacity = np.array(available, dtype=np.int64)
    if not view.quotas:
        return Capacities(table, capacity, (), kept)
    left = _left(view)
    numbers = {tenant: number for number, tenant in enumerate(left)}
    whose = np.array([numbers.get(job.tenant, -1) for job in view.jobs], dtype=np.int64)
    devices = table.sum(axis=1)
    fewest = _fewest(view, table, owner, devices, np.flatnonzero(must & (whose >= 0)))
    need = _by_tenant(whose[owner[fewest]], devices[fewest], len(left))
    limits = np.maximum(np.array(list(left.values()), dtype=np.int64), need)
    most = np.zeros(len(view.jobs), dtype=np.int64)
    np.maximum.at(most, owner, devices)
    tight = np.flatnonzero(_by_tenant(whose, most, len(left)) > limits)
    lowered = np.flatnonzero(_by_tenant(whose[owner[kept]], devices[kept], len(left)) > limits)
    if len(lowered):
        kept = kept[~np.isin(whose[owner[kept]], lowered)]
        kept = np.sort(np.append(kept, fewest[np.isin(whose[owner[fewest]], lowered)]))
    taken = np.where(whose[owner][:, None] == tight, devices[:, None], 0)
    names = tuple(left)
    return Capacities(
        np.concatenate([table, taken], axis=1),
        np.concatenate([capacity, limits[tight]]),
        tuple(names[number] for number in tight.tolist()),
        kept,
    )


def _left(view: View) -> dict[str, int]:
    """Return by tenant with a quota what pinned jobs leave of it."""
    pinned: Mapping[str, Counts] = {
        job.id: job.current for job in view.jobs if job.pinned and job.current is not None
    }
    return room(view, pinned)


def _fewest(view: View, table: Table, owner: Rows, devices: Rows, jobs: Rows) -> Rows:
    """Return for each of these jobs its row of fewest devices out of those that it has.

    Of any devices, where it can have none of those: what jobs have fits together, their shares of
    it do so, too.
    """
    rows = []
    begin, end = (np.searchsorted(owner, jobs, side).tolist() for side in ("left", "right"))
    for job, first, last in zip(jobs.tolist(), begin, end, strict=True):
        those = np.arange(first, last)
        within = (table[first:last] <= np.array(view.jobs[job].current)).all(axis=1)
        those = those[within] if within.any() else those
        rows.append(int(those[devices[those].argmin()]))
    return np.array(rows, dtype=np.int64)


def _by_tenant(whose: Rows, counts: Rows, tenants: int) -> Rows:
    """Return the sum of counts by tenant, (Q,); -1 is nobody's."""
    total = np.zeros(tenants, dtype=np.int64)
    np.add.at(total, whose[whose >= 0], counts[whose >= 0])
    return total
