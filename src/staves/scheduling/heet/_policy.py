"""The policy: weigh, choose, use up what is left, explain."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import as_table, unpinned
from staves.scheduling._policy import Policy
from staves.scheduling._reasons import Reasons
from staves.scheduling._view import Counts, Decision, JobView, View
from staves.scheduling.heet._choose import Choices, choose
from staves.scheduling.heet._configurations import configurations, undominated
from staves.scheduling.heet._explain import explain
from staves.scheduling.heet._utility import Weighed, Weights, weigh


class Heet(Policy):
    """Give each job the configuration, mixed ones included, that makes the sum of values largest.

    One exact decision matches jobs to types and sizes at once: admission, growth into idle devices,
    shrinking for others and moves between types are no separate steps. The decision holds the value
    of the sum, and the bound of its linear relaxation over the configurations that were weighed.

    Args:
        weights: what may be tuned; the defaults are for jobs that change in place.
    """

    name = "heet"
    in_place = True
    estimator = "product"

    def __init__(self, weights: Weights | None = None) -> None:
        self._weights = weights or Weights()

    def decide(self, view: View) -> Decision:
        """Return the best decision for this view."""
        available = unpinned(view)
        current = {job.id: job.current for job in view.jobs if job.current is not None}
        free = tuple(np.maximum(np.array(available) - _sum(view, current), 0).tolist())
        sizes = [frozenset(node[g] for node in view.nodes) - {0} for g in range(len(available))]
        tables = [
            as_table([job.current], len(available))
            if job.pinned and job.current is not None
            else configurations(job, available, free, sizes)
            for job in view.jobs
        ]
        weighed = weigh(view, tables, self._weights)
        good = [undominated(item.table, item.utility) for item in weighed]
        result = choose(
            [
                Choices(item.table[mask], item.utility[mask], _must(item.job))
                if not item.job.pinned
                else Choices(item.table[:0], item.utility[:0])
                for item, mask in zip(weighed, good, strict=True)
            ],
            available,
        )
        chosen: dict[str, Counts] = {}
        for item, mask, row in zip(weighed, good, result.rows, strict=True):
            if item.job.pinned and item.job.current is not None:
                chosen[item.job.id] = item.job.current
            elif row is not None:
                chosen[item.job.id] = tuple(item.table[mask][row].tolist())
        gained = self._use_up(view, weighed, chosen, sizes)
        return Decision(
            chosen,
            Reasons(lambda: explain(view, weighed, chosen)),
            result.value + gained,
            result.bound + gained,  # one more configuration adds its own utility at most
            {item.job.id: (item.table, item.utility) for item in weighed if not item.job.pinned},
        )

    def _use_up(
        self,
        view: View,
        weighed: list[Weighed],
        chosen: dict[str, Counts],
        sizes: list[frozenset[int]],
    ) -> float:
        """Start waiting jobs on what is left, and return the utility that this adds.

        Nothing is left for them where all configurations were weighed; where only some were, what
        is left may be none of those.
        """
        gained = 0.0
        left = np.array(unpinned(view)) - _sum(view, chosen)
        waiting = [index for index, job in enumerate(view.jobs) if job.id not in chosen]
        waiting.sort(key=lambda index: -weighed[index].utility.max(initial=0.0))
        for index in waiting:
            if not left.any():
                break
            job, room = view.jobs[index], tuple(left.tolist())
            rows = configurations(job, room, room, sizes)
            if job.pinned or not len(rows) or not (job.rates(rows) > 0).any():
                continue
            tables = [item.table for item in weighed]
            tables[index] = rows
            anew = weigh(view, tables, self._weights)[index]
            best = int(anew.utility.argmax())
            chosen[job.id] = tuple(anew.table[best].tolist())
            left = left - anew.table[best]
            gained += float(anew.utility[best])
            weighed[index] = anew
        return gained


def _sum(view: View, chosen: Mapping[str, Counts]) -> NDArray[np.int64]:
    """Return the devices of each type that jobs have which are not pinned, (G,)."""
    total = np.zeros(len(view.types), dtype=np.int64)
    for job in view.jobs:
        if not job.pinned:
            total += np.array(chosen.get(job.id, total * 0), dtype=np.int64)
    return total


def _must(job: JobView) -> bool:
    return job.current is not None and job.guaranteed > 0
