"""What the past jobs of the store teach: the estimator's model, fitted beside the turns."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future

from staves.errors import printable
from staves.estimation import Cell, CollaborativeFilter, cells_of
from staves.hardware import Cluster
from staves.service._history import history_of
from staves.service._store import Store

logger = logging.getLogger(__name__)

FEWEST_JOBS, FEWEST_CELLS = 3, 3
"""Past jobs, and measured cells of each, from which on they tell more than peaks and guesses."""

_NEWS = 0.1
"""Jobs that have ended since, as a share of those that were learned from: fewer change little."""

Ladder = tuple[Cell, ...]


class Learning:
    """The model of the jobs that have ended, for the cells of one cluster.

    Args:
        store: holds what was measured.
        executor: fits, in its own time; None: `model` itself does, and whoever calls it waits.

    Attributes:
        failure: why the last fit failed, on one line; None: it did not.
    """

    def __init__(self, store: Store, executor: Executor | None = None) -> None:
        self._store, self._executor = store, executor
        self._asked: tuple[tuple[str, ...], Ladder] | None = None
        self._model: CollaborativeFilter | None = None
        self._of: Ladder = ()
        self._fitting: Future[CollaborativeFilter | None] | None = None
        self.failure: str | None = None

    def model(self, cluster: Cluster) -> CollaborativeFilter | None:
        """Return the newest model that there is; where enough jobs have ended since, a fit begins.

        None where too few past jobs are known, or the first fit for this cluster is under way.
        """
        self.learned()
        past, ladder = self._store.past(), ladder_of(cluster)
        if self._fitting is None and self._outdated(past, ladder):
            self._asked = past, ladder
            if self._executor is None:
                self._take(lambda: _fitted(self._store, past, ladder), ladder)
            else:
                self._fitting = self._executor.submit(_fitted, self._store, past, ladder)
        return self._model if self._of == ladder else None

    def learned(self) -> bool:
        """Say, once, that a fit has come to its end."""
        if self._fitting is None or self._asked is None or not self._fitting.done():
            return False
        self._take(self._fitting.result, self._asked[1])
        self._fitting = None
        return True

    def _take(self, fitted: Callable[[], CollaborativeFilter | None], ladder: Ladder) -> None:
        """Take up a fit that has come to its end, or why it failed."""
        self._of = ladder
        try:
            self._model, self.failure = fitted(), None
        except Exception as error:
            # Jobs must run though their past is unreadable: by their own lines alone, as before it.
            logger.exception("past jobs cannot be learned from")
            why = printable(f"{type(error).__name__}: {error}")
            self._model, self.failure = None, f"past jobs cannot be learned from: {why}"

    def _outdated(self, past: tuple[str, ...], ladder: Ladder) -> bool:
        if self._asked is None or self._asked[1] != ladder:
            return True
        known = self._asked[0]
        return len(set(past) - set(known)) > _NEWS * len(known)


def ladder_of(cluster: Cluster) -> Ladder:
    """Return the cells that beliefs about jobs on this cluster need."""
    types = tuple(cluster.configuration)
    return tuple(cells_of(types, node_sizes(cluster), cluster.total))


def node_sizes(cluster: Cluster) -> tuple[int, ...]:
    """Return how many devices of each type the largest node of it has."""
    return tuple(
        max(node.devices.get(name, 0) for node in cluster.nodes) for name in cluster.configuration
    )


def _fitted(store: Store, past: tuple[str, ...], ladder: Ladder) -> CollaborativeFilter | None:
    history = history_of(store.measured(past))
    telling = sum(len(cells) >= FEWEST_CELLS for cells in history.jobs.values())
    return CollaborativeFilter.fit(history, ladder) if telling >= FEWEST_JOBS else None
