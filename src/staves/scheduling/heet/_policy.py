"""The policy: weigh, choose, use up what is left, explain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import as_table, unpinned, usable
from staves.scheduling._policy import Policy
from staves.scheduling._quotas import room
from staves.scheduling._reasons import Later, Reasons
from staves.scheduling._view import Counts, Decision, JobView, View
from staves.scheduling.heet._explain import explain
from staves.scheduling.heet._market import decide, market
from staves.scheduling.heet._offers import Offers
from staves.scheduling.heet._quotas import capacities, within_quotas
from staves.scheduling.heet._relaxation import Instance
from staves.scheduling.heet._utility import Weighing, Weights


class Heet(Policy):
    """Give each job the configuration, mixed ones included, that makes the sum of values largest.

    One decision matches jobs to types and sizes at once: exactly where jobs are few, by prices and
    trades where they are many. It holds the value of the sum, and a bound: that of the linear
    relaxation over the configurations that were weighed, or a dual value little above it.

    Args:
        weights: what may be tuned; the defaults are for jobs that change in place.
        exact: whether few jobs are decided about exactly, and not by prices and trades as many are.
    """

    name = "heet"
    in_place = True
    estimator = "product"
    quotas = True

    def __init__(self, weights: Weights | None = None, *, exact: bool = True) -> None:
        self._weights = weights or Weights()
        self._solve = decide if exact else market

    def decide(self, view: View) -> Decision:
        """Return the best decision for this view."""
        asked, view = view, within_quotas(view)
        available = unpinned(view)
        current = {job.id: job.current for job in view.jobs if job.current is not None}
        free = tuple(np.maximum(np.array(available) - _sum(view, current), 0).tolist())
        offers = Offers(view, available, free, self._weights.caution)
        weighing = Weighing(view, offers.of_jobs, self._weights)
        pinned = np.array([job.pinned for job in view.jobs], dtype=bool)
        rows = np.flatnonzero(~pinned[weighing.owner])
        owner = weighing.owner[rows]
        must = np.array([_must(job) for job in view.jobs], dtype=bool)
        must &= np.bincount(owner, minlength=len(must)) > 0
        mine = np.flatnonzero(weighing.mine[rows])
        there = capacities(view, available, weighing.table[rows], owner, must, mine)
        result = self._solve(
            Instance(
                weighing.utility[rows],
                there.counts,
                owner,
                len(view.jobs),
                there.capacity,
                mine,
            ),
            must,
            there.kept,
        )
        taken = rows[result.columns]
        counts = dict(
            zip(weighing.owner[taken].tolist(), weighing.table[taken].tolist(), strict=True)
        )
        chosen: dict[str, Counts] = {}
        for index, job in enumerate(view.jobs):
            if job.pinned and job.current is not None:
                chosen[job.id] = job.current
            elif index in counts:
                chosen[job.id] = tuple(counts[index])
        assert result.prices is not None, "a market tells its prices"
        prices, dues = result.prices[: len(view.types)], there.dues(result.prices)
        gained = self._use_up(view, offers, weighing, chosen)
        return Decision(
            chosen,
            Reasons(lambda: explain(asked, weighing, chosen, prices, dues)),
            result.value + gained,
            result.bound + gained,  # one more configuration adds its own utility at most
            Later(lambda: _weighed(view, weighing)),
        )

    def _use_up(
        self, view: View, offers: Offers, weighing: Weighing, chosen: dict[str, Counts]
    ) -> float:
        """Start waiting jobs on what is left, and return the utility that this adds.

        Nothing is left for them where all configurations were weighed; where only some were, what
        is left may be none of those.
        """
        gained, rooms = 0.0, room(view, chosen)
        left = np.array(unpinned(view)) - _sum(view, chosen)
        if not left.any():
            return gained
        best = weighing.best
        waiting = [index for index, job in enumerate(view.jobs) if job.id not in chosen]
        waiting.sort(key=lambda index: -best[index])
        for index in waiting:
            if not left.any():
                break
            job = view.jobs[index]
            most = rooms.get(job.tenant, job.maximum)
            if most < job.maximum:
                job = replace(job, maximum=most)
            there = min(most, sum(usable(job, left.tolist())))
            if job.pinned or there < max(1, job.minimum):
                continue
            offer = offers.anew(job, tuple(left.tolist()))
            if offer is None:
                continue
            anew = weighing.anew(index, offer)
            row = int(anew.utility.argmax())
            chosen[job.id] = tuple(anew.table[row].tolist())
            left = left - anew.table[row]
            if job.tenant in rooms:
                rooms[job.tenant] = most - sum(chosen[job.id])
            gained += float(anew.utility[row])
        return gained


def _weighed(
    view: View, weighing: Weighing
) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
    result = {}
    for index, job in enumerate(view.jobs):
        if not job.pinned:
            one = weighing.of(index)
            result[job.id] = one.table, one.utility
    return result


def _sum(view: View, chosen: Mapping[str, Counts]) -> NDArray[np.int64]:
    """Return the devices of each type that jobs have which are not pinned, (G,)."""
    rows = [chosen[job.id] for job in view.jobs if not job.pinned and job.id in chosen]
    total: NDArray[np.int64] = as_table(rows, len(view.types)).sum(axis=0)
    return total


def _must(job: JobView) -> bool:
    return job.current is not None and job.guaranteed > 0
