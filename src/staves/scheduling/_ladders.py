"""What published policies weigh for elastic jobs: any number of devices, of one type each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import (
    Table,
    as_table,
    keeps_guaranteed,
    permitted,
    single,
    usable,
)
from staves.scheduling._reasons import Reasons
from staves.scheduling._rigid import granted, impossible
from staves.scheduling._view import Counts, Decision, JobView, Rates, Reason, View, is_fixed

Array = NDArray[np.float64]

_Alike = tuple[int, int, int, int, int, frozenset[int] | None]


@dataclass(frozen=True, eq=False)
class Ladders:
    """How fast each job is on any number of devices of any one type.

    Args:
        jobs: J jobs.
        rates: (J, G, N + 1), reference samples a second on n devices of type g; 0 where the job
            may not have them or does not run. N is the most devices that a job may have.
    """

    jobs: tuple[JobView, ...]
    rates: Array

    @property
    def best(self) -> Array:
        """The greatest rate of each job, (J,); 0 for one that nothing runs."""
        if not self.rates.size:
            return np.zeros(len(self.jobs))
        top: Array = self.rates.max(axis=(1, 2))
        return top

    def some(self, keep: Sequence[int]) -> Ladders:
        """Return the ladders of the jobs with these numbers."""
        return Ladders(tuple(self.jobs[j] for j in keep), self.rates[list(keep)])

    def fair(self, view: View) -> Array:
        """Return each job's rate alone on a 1 / J share of every type, its best type's, (J,).

        J is the number of the view's jobs that something runs. A share of less than the job must
        have counts as that part of the time.
        """
        if not len(self.jobs):
            return np.zeros(0)
        contenders = len(view.jobs) - int((self.best == 0).sum())
        share = np.array(view.capacity) / max(1, contenders)
        top = self.rates.shape[2] - 1
        runs = self.rates > 0
        least = np.where(runs.any(axis=2), runs.argmax(axis=2), 1)  # (J, G)
        size = np.clip(np.floor(share), least, max(top, 1)).astype(np.int64)
        # More devices than one may have are as the most that it may, or fewer where these are best.
        best = np.maximum.accumulate(self.rates, axis=2)
        rate = np.take_along_axis(best, size[:, :, None], axis=2)[:, :, 0]
        fair: Array = (rate * np.minimum(1.0, share / least)).max(axis=1)
        return fair


def ladders(jobs: Sequence[JobView], available: Sequence[int], *, rigid: bool = False) -> Ladders:
    """Return the ladders of `jobs` over the devices that are available, (G,).

    Args:
        jobs: none of them pinned.
        available: devices of each type.
        rigid: only the size that a job asks for is looked at.
    """
    alike: dict[_Alike, list[int]] = {}
    for j, job in enumerate(jobs):
        # Jobs alike share their ladder; what is guaranteed to one is its own.
        own = j if job.guaranteed and job.current is not None else -1
        key = (own, id(job.rates), job.minimum, job.maximum, job.requested, job.types)
        alike.setdefault(key, []).append(j)
    first = [jobs[members[0]] for members in alike.values()]
    most = max([1, *(top for job in first for top in usable(job, available))])
    rates = np.zeros((len(jobs), len(available), most + 1))
    for job, members in zip(first, alike.values(), strict=True):
        size = min(max(1, job.minimum, job.requested), job.maximum) if rigid else 0
        room = usable(job, available)
        terms = _Terms(job.minimum, job.maximum, job.types, job.mix)
        found = (_kept_rungs if is_fixed(job.rates) else _rungs)(job.rates, terms, room, size)
        if job.guaranteed and job.current is not None:
            table, kind, total = _steps(terms, room, size)
            lost = ~keeps_guaranteed(job, available, table)
            found = found.copy()
            found[kind[lost], total[lost]] = 0.0
        for j in members:
            rates[j, :, : found.shape[1]] = found
    return Ladders(tuple(jobs), rates)


class _Terms(NamedTuple):
    """What of a job decides what it may have; as `JobView`, which it stands for here."""

    minimum: int
    maximum: int
    types: frozenset[int] | None
    mix: bool


def _rungs(rates: Rates, terms: _Terms, room: Counts, size: int) -> Array:
    """Return the rates of so many devices of each type, (G, N + 1); arguments as of `_steps`."""
    table, kind, total = _steps(terms, room, size)
    found = np.zeros((len(room), max(room, default=0) + 1))
    if len(table):
        found[kind, total] = rates(table)
    found.flags.writeable = False
    return found


_kept_rungs = lru_cache(maxsize=2048)(_rungs)


@lru_cache(maxsize=4096)
def _steps(
    terms: _Terms, room: Counts, size: int
) -> tuple[Table, NDArray[np.int64], NDArray[np.int64]]:
    """Return what a job may have: configurations of one type, (C, G), the type of each, (C,), and
    how many of it, (C,).

    Args:
        terms: of the job.
        room: devices of each type at most, (G,).
        size: the number of devices that is looked at; 0: all.
    """
    types = len(room)
    sizes = [size] if size else range(1, max(room, default=0) + 1)
    rows = [single(types, g, n) for g in range(types) for n in sizes if n <= room[g]]
    table = as_table(rows, types)
    table = table[permitted(terms, table)]
    total = table.sum(axis=1)
    kind = table.argmax(axis=1) if types else total
    for array in (table, kind, total):
        array.flags.writeable = False  # it is remembered
    return table, kind, total


def undominated(cost: Array) -> NDArray[np.int64]:
    """Return what is worth weighing for one job: rows of type and devices, (C, 2).

    That is what costs less than any smaller number of devices of the type.

    Args:
        cost: (G, N + 1); inf for what the job may not have.
    """
    before = np.full(cost.shape, np.inf)
    before[:, 1:] = np.minimum.accumulate(cost, axis=1)[:, :-1]
    return np.argwhere(cost < before)


def decided(
    view: View,
    settled: Decision,
    jobs: Sequence[JobView],
    chosen: Mapping[int, tuple[int, int]],
    why: Callable[[int], str],
    waits: Callable[[int], str],
) -> Decision:
    """Return `settled` with what others got, and reasons for all.

    Args:
        view: what was looked at.
        settled: what was decided before.
        jobs: all others.
        chosen: by their numbers, (type, devices).
        why: a reason for a number in `chosen`, without what it got and without full stop.
        waits: a reason for one that is not, a sentence.
    """
    counts: dict[str, Counts] = dict(settled.chosen)
    for j, (g, size) in chosen.items():
        counts[jobs[j].id] = single(len(view.types), g, size)

    def reasons() -> dict[str, Reason]:
        told = dict(settled.reasons)
        for j, job in enumerate(jobs):
            if j in chosen:
                told[job.id] = granted(view, job, counts[job.id], why(j))
            else:
                told[job.id] = impossible(view, job) or Reason(waits(j))
        return told

    return Decision(counts, Reasons(reasons))
