"""What jobs may have, and how fast they are on it: looked up once for all jobs that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import Table, as_table
from staves.scheduling._view import Counts, JobView, Rates, View, is_fixed
from staves.scheduling.heet._configurations import Ways, fastest_first, undominated, ways

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Offer:
    """Configurations that all run the job, (C, G), and their rates, (C,); C may be 0.

    Attributes:
        table: the configurations.
        rates: reference samples a second, above zero.
        counted: as what they count, which is less where they are not sure, (C,).
        current: the row that the job has already; -1 for none.
        worth: the rows that no other one beats with fewer devices, and what the job has already,
            which a change of it would have to pay for: all that need be weighed, ascending.
        able: whether there is anything that the job may have, be it that this does not run it.
    """

    table: Table
    rates: Array
    counted: Array
    current: int
    worth: Rows
    able: bool

    @cached_property
    def weighed(self) -> Table:
        """The rows that are `worth` weighing."""
        return self.table[self.worth]

    @cached_property
    def weighed_rates(self) -> Array:
        """Their rates, as they count."""
        return self.counted[self.worth]

    @cached_property
    def mine(self) -> Mask:
        """Which of them the job has already."""
        mine: Mask = self.worth == self.current
        return mine


def offer(ways: Ways, rates: Array, sure: Array | None = None) -> Offer:
    """Return what a job is offered.

    Args:
        ways: its configurations.
        rates: of them, (C,); rows of rate 0 are dropped.
        sure: factors by which they count less, (C,), above 0; None where all count as they are.
    """
    counted = rates if sure is None else rates * sure
    table, row, keep = ways.table, ways.current, undominated(counted, ways.within)
    runs = rates > 0
    keep &= runs
    if not runs.all():
        row = int(runs[:row].sum()) if row >= 0 and runs[row] else -1
        table, rates, counted, keep = table[runs], rates[runs], counted[runs], keep[runs]
    return Offer(table, rates, counted, row, np.flatnonzero(keep), len(runs) > 0)


def certainty(job: JobView, table: Table, caution: float) -> Array | None:
    """Return what is left of rates at the lower bounds by which they count, (C,); None: all."""
    if not caution or job.log_std is None or not len(table):
        return None
    left: Array = np.exp(-caution * job.log_std(table))
    return left


def _offer_of(rates: Rates, ways: Ways) -> Offer:
    return offer(ways, rates(ways.table) if len(ways.table) else np.zeros(0))


_kept_offer_of = lru_cache(maxsize=4096)(_offer_of)


class Offers:
    """The offers to all jobs of one view; the same object for jobs that are alike.

    Args:
        view: the jobs.
        available: devices of each type that may be given out, (G,).
        free: those of them that nobody has, (G,).
        caution: as of `Weights`.
    """

    def __init__(self, view: View, available: Counts, free: Counts, caution: float = 0.0) -> None:
        self._available, self._free, self._caution = available, free, caution
        self.node_sizes = [
            frozenset(node[g] for node in view.nodes) - {0} for g in range(len(available))
        ]
        self._orders: dict[int, tuple[int, ...]] = {}
        self._offers: dict[tuple[object, ...], Offer] = {}
        self.of_jobs = [self._of(job) for job in view.jobs]

    def anew(self, job: JobView, room: Counts) -> Offer | None:
        """Return what a job that has nothing may have of `room`; None where that is nothing."""
        there = ways(job, room, room, self.node_sizes, self._order(job))
        there = replace(there, current=-1)  # what it had is lost to it now
        if not len(there.table):
            return None
        found = offer(there, job.rates(there.table), certainty(job, there.table, self._caution))
        return found if len(found.rates) else None

    def _of(self, job: JobView) -> Offer:
        held = job.current
        guaranteed = job.guaranteed if held is not None else 0
        terms = (job.minimum, job.maximum, job.types, job.mix, held, guaranteed, job.pinned)
        doubt = job.log_std if self._caution else None
        # `view` keeps the rates alive, so an id is nobody else's.
        key = (id(job.rates), doubt, *terms)
        if key not in self._offers:
            self._offers[key] = self._made(job)
        return self._offers[key]

    def _made(self, job: JobView) -> Offer:
        ways = self._ways(job)
        sure = certainty(job, ways.table, self._caution)
        if sure is not None:
            return offer(ways, job.rates(ways.table), sure)
        return (_kept_offer_of if is_fixed(job.rates) else _offer_of)(job.rates, ways)

    def _ways(self, job: JobView) -> Ways:
        if job.pinned and job.current is not None:
            table = as_table([job.current], len(self._available))
            return Ways(table, 0, np.zeros((1, 1), dtype=bool))
        order = self._order(job) if job.mix else ()
        return ways(job, self._available, self._free, self.node_sizes, order)

    def _order(self, job: JobView) -> tuple[int, ...]:
        key = id(job.rates)
        if key not in self._orders:
            self._orders[key] = fastest_first(job, len(self._available))
        return self._orders[key]


def all_worth(offers: Sequence[Offer], types: int) -> tuple[Table, Array, Mask, Rows]:
    """Return what is worth weighing, job by job: counts (N, G), rates, whether held, and whose."""
    nothing = np.zeros((0, types), dtype=np.int64)
    return (
        np.concatenate([nothing, *(one.weighed for one in offers)]),
        np.concatenate([np.zeros(0), *(one.weighed_rates for one in offers)]),
        np.concatenate([np.zeros(0, dtype=bool), *(one.mine for one in offers)]),
        np.repeat(np.arange(len(offers)), [len(one.worth) for one in offers]),
    )
