"""The controller on simulated time: the same turns, store, state machine and policy, no waiting."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from staves.errors import StavesError
from staves.hardware import Cluster
from staves.scheduling import Policy
from staves.service._machine import ALONE
from staves.service._rows import Job, Span, StoredDecision, StoryLine
from staves.service._spec import JobSpec
from staves.service._store import Store
from staves.service._turns import Turns
from staves.simulation import Overheads, SimulatedEngine, TrainingTruth

_OWNER = "rehearsal"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that comes.

    Args:
        time: seconds after the begin.
        spec: what it asks for.
        truth: what it is.
    """

    time: float
    spec: JobSpec
    truth: TrainingTruth


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What happened; all times in seconds after the begin.

    Args:
        jobs: as the service's store has them at the end, in order of arrival.
        spans: of each job, by id.
        stories: of each job, by id.
        decisions: oldest first, as many as the store keeps.
    """

    jobs: tuple[Job, ...]
    spans: Mapping[str, tuple[Span, ...]]
    stories: Mapping[str, tuple[StoryLine, ...]]
    decisions: tuple[StoredDecision, ...]

    @property
    def jct_seconds(self) -> tuple[float, ...]:
        """From arrival to end, of each job; inf for one that did not end."""
        return tuple(
            math.inf if job.finished is None else job.finished - job.submitted for job in self.jobs
        )


def rehearse(
    policy: Policy,
    cluster: Cluster,
    arrivals: Sequence[Arrival],
    folder: Path,
    *,
    overheads: Overheads | None = None,
    turn_seconds: float = 0.2,
    until: float = 1e6,
) -> Rehearsal:
    """Play jobs on a cluster through the service's own controller, on simulated time.

    The controller's turns, its store and its policy are those of `staves up`; only the engine and
    the clock are simulated. Same arguments, same result, but for the seconds decisions took.

    Args:
        policy: decides.
        cluster: its types emulated, or known to every job's truth.
        arrivals: in order of time.
        folder: for the store; it must hold none.
        overheads: what starts and changes cost; None for nothing.
        turn_seconds: between two turns.
        until: seconds after which it ends, whoever still runs.

    Raises:
        StavesError: jobs still run then.
    """
    clock = _Clock()
    truths: dict[str, TrainingTruth] = {}
    engine = SimulatedEngine(cluster, truths, overheads or Overheads(), clock)
    store = Store(folder)
    try:
        turns = Turns(
            store, engine, policy, home=folder, workdir_of=lambda job: folder, clock=clock
        )
        waiting = list(arrivals)
        awake = _Awake(policy.round_seconds)
        while waiting or not _over(store):
            due = clock.now + turn_seconds
            if waiting and waiting[0].time <= due:
                arrival = waiting.pop(0)
                clock.now = max(clock.now, arrival.time)
                job = store.submit(arrival.spec, "0" * 64, _OWNER, now=clock.now)
                truths[job] = arrival.truth
                turns.reconsider()
            else:
                clock.now = due
            news = (len(truths), turns.decided, *engine.news(ALONE))
            if awake.at(clock.now, news, turns.again_at):
                turns.turn()
            if clock.now > until:
                raise StavesError(f"jobs still run after {until:g} simulated seconds")
        return _result(store)
    finally:
        store.close()


@dataclass(slots=True)
class _Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class _Awake:
    """Says which turns to take: those in which nothing could happen are left out, to save time.

    Args:
        round_seconds: of the policy.
    """

    _FOR = 1.0  # seconds after news: what follows from it has happened by then
    _EVERY = 5.0  # seconds: work that was done is stored now and then

    def __init__(self, round_seconds: float | None) -> None:
        self._round = math.inf if round_seconds is None else round_seconds
        self._news: tuple[object, ...] = ()
        self._since = self._last = 0.0

    def at(self, now: float, news: tuple[object, ...], due: float) -> bool:
        """Whether there may be something to do now.

        Args:
            now: seconds.
            news: what something could follow from.
            due: when there is something to do though no news come.
        """
        if news != self._news:
            self._news, self._since = news, now
        quiet = now - self._since
        awake = quiet < self._FOR or quiet >= self._round - self._FOR or now >= due
        if awake or now - self._last >= self._EVERY:
            self._last = now
            return True
        return False


def _over(store: Store) -> bool:
    return all(job.record.final for job in store.jobs())


def _result(store: Store) -> Rehearsal:
    jobs = tuple(store.jobs())
    return Rehearsal(
        jobs,
        {job.id: tuple(store.spans(job.id)) for job in jobs},
        {job.id: tuple(store.story(job.id)) for job in jobs},
        tuple(
            dataclasses.replace(decision, document={**decision.document, "seconds": 0.0})
            for decision in reversed(store.decisions(limit=1000))
        ),
    )
