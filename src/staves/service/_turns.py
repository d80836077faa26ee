"""The controller's loop body: look at every job, decide where that is due, hand devices over.

Each step goes through the store before the engine hears of it, and what the engine is told follows
from the stored record alone. A controller that dies anywhere is followed by one that begins with
`turn`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from staves.engines._base import Engine, Status
from staves.errors import StavesError
from staves.estimation import JobProfile
from staves.hardware import Allocation, KeptLinks
from staves.scheduling import Policy, check_quotas
from staves.service._beliefs import (
    Stretch,
    fitted_types,
    profile_of,
    stretches,
    stretches_of,
)
from staves.service._deciding import Candidate, decide
from staves.service._decision_document import decision_document
from staves.service._handover import Holder, moves
from staves.service._launching import launch_of
from staves.service._learning import Learning
from staves.service._machine import events_of, orders
from staves.service._pauses import Pauses
from staves.service._rows import Job, Round
from staves.service._states import (
    ACTIVE,
    Grant,
    IllegalEvent,
    NotStarted,
    Order,
    Record,
    ResizeOrder,
    StartOrder,
    State,
)
from staves.service._store import Store

logger = logging.getLogger(__name__)

OPEN: frozenset[State] = ACTIVE | {"queued", "paused"}

_GATHER = 0.3  # seconds that a decision waits for more to happen
_TRIED_AGAIN = 5.0  # seconds until a decision that failed is tried again
_SETTLES_FOR = 10.0  # seconds after a change in which a job loses nothing
_STORE_EVERY = 2.0  # seconds between two times that progress alone is stored
_LEFT_ALONE = 60.0  # seconds, at most, in which a change may take effect and be measured
_REMEMBERED = 20  # finished jobs that count for the speeds of types
_SHUNNED_FOR = 600.0  # seconds that a device gets nothing after a job could not use it
_NOT_HAD_FOR = 60.0  # seconds that it gets nothing after the cluster did not let a job have it


@dataclass(slots=True)
class _Seen:
    """What the loop remembers of a job between two turns; none of it is needed after a restart."""

    status: Status | None = None
    attempt: int = 0
    stored: float = 0.0
    spans: int = 0
    fitted: frozenset[str] = frozenset()
    changed: float | None = None  # when it was granted what it has, or that came into force
    grown: bool = False  # whether that brought it devices that it had not
    paused: int = 0  # spans before which its standing still has been counted
    timed: bool = False
    waited: float = 0.0
    looked: float | None = None
    before: tuple[Stretch, ...] = ()  # of earlier attempts


class Turns:
    """One controller's turns.

    Args:
        store: of the service; this is its only writer, under one lock.
        engine: runs the jobs.
        policy: decides.
        home: the folder of everything Staves keeps.
        workdir_of: makes a job's private working directory, if it is not there yet.
        clock: Unix seconds.
        executor: learns from past jobs beside the turns; None: the turns do, and take longer.
        quotas: devices that jobs of a tenant may have together, by tenant; None for none.

    Raises:
        InputError: the policy does not honour quotas.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        policy: Policy,
        *,
        home: Path,
        workdir_of: Callable[[Job], Path],
        clock: Callable[[], float] = time.time,
        executor: Executor | None = None,
        quotas: Mapping[str, int] | None = None,
    ) -> None:
        check_quotas(policy, quotas or {})
        self.quotas = quotas or {}
        self.store, self.engine, self.policy = store, engine, policy
        self.pauses = Pauses()
        self._learning = Learning(store, executor)
        self.decided = 0  # decisions taken
        self.decision_seconds = 0.0  # of the last one
        self.unable: Mapping[str, str] = {}
        self.undecided: str | None = None  # why the last decision was not taken, until one is
        self._home, self._workdir_of, self._clock = home, workdir_of, clock
        self._seen: dict[str, _Seen] = {}
        self._targets: dict[str, tuple[str, ...]] = {}
        self._shunned: dict[str, float] = {}  # devices, and until when
        self._nodes = engine.cluster().nodes
        self._links = KeptLinks(home, logger.warning)
        self._wanted_since: float | None = clock()
        self._last = clock()
        self._again_at = math.inf
        self._closing = False

    # -- what others ask

    def reconsider(self) -> None:
        """Something has happened that calls for a decision."""
        if self._wanted_since is None:
            self._wanted_since = self._clock()

    def close(self) -> None:
        """Grant nothing from here on: the service goes down."""
        self._closing = True

    @property
    def again_at(self) -> float:
        """When a decision falls due though nothing happens, Unix seconds; inf: not before it."""
        return self._again_at if self.policy.at_events else math.inf

    @property
    def unlearned(self) -> str | None:
        """Why past jobs cannot be learned from; None: they can, or are too few."""
        return self._learning.failure

    def status(self, job: str) -> Status | None:
        """Return the status of the job's attempt as of the last turn."""
        seen = self._seen.get(job)
        return seen.status if seen else None

    # -- the turn

    def turn(self) -> None:
        """Do what there is to do now.

        Raises:
            StavesError: something failed, for one job perhaps; what could be done for the others
                is done.
        """
        now = self._clock()
        trouble: StavesError | None = None
        if (nodes := self.engine.cluster().nodes) != self._nodes:
            self._nodes = nodes
            self.reconsider()
        jobs = self.store.jobs(states=OPEN)
        self._forget_all_but({job.id for job in jobs})
        for job in jobs:
            self._wait(job.record, now)
            if job.record.active:
                try:
                    self._follow(job, now)
                except StavesError as error:  # an attempt's damaged file, say
                    trouble = trouble or error
        if self._learning.learned():
            self.reconsider()
        if not self._closing:
            if self._due(now):
                try:
                    self._decide(now)
                except StavesError as error:
                    self._put_off(error, now)
            self._hand_over(now)
        if trouble is not None:
            raise trouble

    def _forget_all_but(self, open_jobs: set[str]) -> None:
        """Let go of jobs that have ended: a service may see very many."""
        self._seen = {job: seen for job, seen in self._seen.items() if job in open_jobs}
        self._targets = {job: names for job, names in self._targets.items() if job in open_jobs}

    def _wait(self, record: Record, now: float) -> None:
        """Count the time without devices up, and that with devices down again."""
        seen = self._seen.setdefault(record.id, _Seen())
        passed = 0.0 if seen.looked is None else now - seen.looked
        seen.looked = now
        if record.state == "queued":
            seen.waited += passed
        elif record.active:
            seen.waited = max(0.0, seen.waited - passed)

    def _follow(self, job: Job, now: float) -> None:
        """Take in how its attempt stands, and tell the engine what that shows it has not heard."""
        seen = self._seen[job.id]
        if seen.attempt != job.record.attempt:  # new, or this controller is
            seen.attempt, seen.status = job.record.attempt, None
            seen.spans = seen.paused = 0
            seen.changed = now if seen.changed is None else seen.changed
            seen.before = stretches(
                [s for s in self.store.spans(job.id) if s.attempt < seen.attempt], now
            )
        status = seen.status = self.engine.status(job.id, job.record.attempt)
        record = job.record
        events = events_of(record, status)
        if events:
            names = ", ".join(type(event).__name__.lower() for event in events)
            logger.info("%s: %s", record.title, names)
            if status.ended is not None and status.ended.end == "unplaced":
                logger.warning("%s: %s", record.title, status.ended.reason)
                # Not all were refused, but which is not told; another placement may be had.
                self._shunned |= dict.fromkeys(record.devices, now + _NOT_HAD_FOR)
                self._targets[job.id] = ()  # nor are they granted again before the next decision
            record = self.store.apply(job.id, *events, now=now)
            if job.record.state == "rescaling" != record.state and seen.changed is not None:
                if seen.grown:
                    self.pauses.in_force(now - seen.changed)
                seen.changed = now
            self.reconsider()
        self._observe(job, seen, status, now)
        for order in orders(record, status):
            self._carry_out(job, record, order, now)
        if set(status.unusable) & set(record.devices) and status.request >= record.request:
            self._give_back(record, status, now)

    def _give_back(self, record: Record, status: Status, now: float) -> None:
        """Take devices away on which the job cannot work, and keep them out of use for a while."""
        bad = set(status.unusable)
        left = tuple(name for name in record.devices if name not in bad)
        if not left:  # the attempt itself ends then, and says why
            return
        logger.warning("%s: cannot use %s", record.title, ", ".join(sorted(bad)))
        self._shunned |= dict.fromkeys(bad, now + _SHUNNED_FOR)
        self.store.apply(record.id, Grant(left), now=now)
        self._targets[record.id] = left
        self.reconsider()

    def _observe(self, job: Job, seen: _Seen, status: Status, now: float) -> None:
        """Keep what the engine tells: at once what is new in kind, progress now and then."""
        fitted = fitted_types(job, status)
        news = fitted != seen.fitted or len(status.spans) != seen.spans or status.ended is not None
        timed = bool(status.progress.get("step_seconds"))
        if fitted != seen.fitted or timed != seen.timed:
            self.reconsider()
        if status.spans and not seen.spans and seen.changed is not None:
            self.pauses.started(float(status.spans[0]["since"]) - seen.changed)
        seen.paused = self.pauses.stood_still(status.spans, seen.paused)
        seen.fitted, seen.timed, seen.spans = fitted, timed, len(status.spans)
        if not news and now - seen.stored < _STORE_EVERY:
            return
        seen.stored = now
        self.store.observe(
            job.id,
            progress=status.progress or None,
            knowledge=status.knowledge,
            summary=status.ended.figures if status.ended and status.ended.figures else None,
            attempt=job.record.attempt,
            stretches=status.spans,
        )

    def _carry_out(self, job: Job, record: Record, order: Order, now: float) -> None:
        try:
            self._tell(job, record, order)
        except Exception as error:
            if not isinstance(error, StavesError):
                if not isinstance(order, StartOrder):
                    raise
                # Whatever it is about this one job, the others are not to wait for it.
                logger.exception("%s: not started", record.title)
                error = StavesError(f"{type(error).__name__}: {error}")
            if isinstance(order, StartOrder):
                logger.warning("%s: not started: %s", record.title, error.message)
                self.store.apply(job.id, NotStarted(error.message), now=now)
                self.reconsider()
            else:  # it is told again in the next turn
                logger.warning("%s: %s", record.title, error.message)

    def _tell(self, job: Job, record: Record, order: Order) -> None:
        cluster = self.engine.cluster()
        if isinstance(order, StartOrder):
            devices = Allocation.named(cluster, order.devices).devices
            fresh = self.store.job(job.id)
            launch = launch_of(fresh, devices, home=self._home, workdir=self._workdir_of(fresh))
            self.engine.launch(launch)
        elif isinstance(order, ResizeOrder):
            devices = Allocation.named(cluster, order.devices).devices
            self.engine.resize(job.id, order.attempt, devices, order.request)
        else:
            self.engine.stop(job.id, order.attempt, save=order.save, grace=job.spec.grace)

    # -- decisions

    def _due(self, now: float) -> bool:
        if self._wanted_since is not None:
            if self.policy.at_events and now - self._wanted_since >= _GATHER:
                return True
            if self.decided == 0 and self.undecided is None:
                return True
        if now >= self.again_at:
            return True
        period = self.policy.round_seconds
        return period is not None and now - self._last >= period

    def _decide(self, now: float) -> None:
        self._wanted_since, self._last = None, now
        jobs = self.store.jobs(states=OPEN)
        wanted = [job for job in jobs if job.record.state not in ("paused", "saving")]
        measured = {one.id: one.rounds for one in self.store.measured([job.id for job in wanted])}
        candidates = [self._candidate(job, measured.get(job.id, ()), now) for job in wanted]
        ending = [job for job in jobs if job.record.state == "saving"]
        self._shunned = {name: until for name, until in self._shunned.items() if until > now}
        busy = {name for job in ending for name in self._uses(job.record)} | set(self._shunned)
        self._again_at = min(self._ends(candidates, now), default=math.inf)
        begun = time.perf_counter()
        outcome = decide(
            self.policy,
            candidates,
            self._links.on(self.engine.cluster()),
            now=now,
            drained=self.store.drained(),
            busy=busy,
            start_pause=self.pauses.start,
            resize_pause=self.pauses.resize,
            resize_delay=self.pauses.delay,
            others=self._past_profiles(),
            model=self._learning.model(self.engine.cluster()),
            quotas=self.quotas,
        )
        self.decision_seconds = time.perf_counter() - begun
        self.decided += 1
        self.unable, self.undecided = outcome.unable, None
        self._targets = {
            candidate.job.id: outcome.allocations[candidate.job.id].names
            if candidate.job.id in outcome.allocations
            else ()
            for candidate in candidates
        }
        document = decision_document(outcome, jobs, self.policy.name, self.decision_seconds)
        self.store.record_decision(document, now=now)

    def _put_off(self, error: StavesError, now: float) -> None:
        """Keep what was decided before, and decide in a while: until then, say what is wrong."""
        if self.undecided != error.message:
            logger.error("%s", error.message, exc_info=error.__cause__)
        self.undecided = error.message
        self._wanted_since = now + _TRIED_AGAIN

    def _ends(self, candidates: Sequence[Candidate], now: float) -> Iterator[float]:
        """Yield the times at which what a decision goes by changes, though nothing happens."""
        yield from self._shunned.values()
        for candidate in candidates:
            changed = self._seen[candidate.job.id].changed
            if changed is not None and candidate.job.record.active:
                ends = (changed + _SETTLES_FOR, changed + _LEFT_ALONE)
                yield from (end for end in ends if end > now)

    def _past_profiles(self) -> list[JobProfile]:
        """Return what finished jobs have learned: how fast types are beside each other."""
        past = self.store.jobs(states=["finished"], limit=_REMEMBERED)
        return [profile_of(job, None, self.engine.cluster()) for job in past if job.knowledge]

    def _candidate(self, job: Job, rounds: tuple[Round, ...], now: float) -> Candidate:
        seen = self._seen[job.id]
        status = seen.status if job.record.active else None
        had = (*seen.before, *stretches_of(status, now))
        return Candidate(
            job,
            status,
            held=self._held(job.record, seen, now),
            settling=seen.changed is not None and now < seen.changed + _SETTLES_FOR,
            had=had,
            waiting=seen.waited,
            pause_left=self._pause_left(job.record, seen, now),
            unchanged=math.inf
            if seen.changed is None or not job.record.active
            else max(0.0, now - seen.changed),
            rounds=rounds,
        )

    def _held(self, record: Record, seen: _Seen, now: float) -> bool:
        """Say whether the job is to be left alone: a change is under way, or being measured.

        What is believed of it meanwhile is a guess, and devices that are on their way to it would
        have come in vain.
        """
        if not (record.active and record.elastic) or seen.changed is None:
            return False
        if now >= seen.changed + _LEFT_ALONE:
            return False
        if record.state == "rescaling" or not seen.timed:
            return True
        types = {device.name: device.type.name for device in self.engine.cluster().devices()}
        has = {types[name] for name in record.devices if name in types}
        return len(record.devices) > 1 and not has <= seen.fitted

    def _pause_left(self, record: Record, seen: _Seen, now: float) -> float:
        if not record.active or seen.changed is None or seen.timed:
            return 0.0
        return max(0.0, self.pauses.start - (now - seen.changed))

    # -- to hand devices over

    def _hand_over(self, now: float) -> None:
        jobs = {job.id: job for job in self.store.jobs(states=OPEN)}
        holders = [
            Holder(
                job.record,
                self._target(job.record),
                self._uses(job.record),
                job.spec.minimum,
                self._unheard(job.record),
            )
            for job in jobs.values()
            if job.record.state != "paused"
        ]
        for name, move in moves(holders).items():
            try:
                record = self.store.apply(name, move, now=now)
            except IllegalEvent as error:  # it was stopped, say, since the decision
                logger.info("%s", error.message)
                self.reconsider()
                continue
            logger.info("%s: %s", record.title, move)
            if isinstance(move, Grant):
                seen = self._seen[name]
                seen.changed = now
                seen.grown = not set(record.devices) <= set(jobs[name].record.devices)
                if record.attempt != jobs[name].record.attempt:
                    seen.status, seen.timed = None, False
                self._follow_order(jobs[name], record, now)

    def _follow_order(self, job: Job, record: Record, now: float) -> None:
        """Tell the engine of a grant at once, not only in the next turn."""
        status = self.engine.status(job.id, record.attempt)
        for order in orders(record, status):
            self._carry_out(job, record, order, now)

    def _target(self, record: Record) -> tuple[str, ...]:
        return self._targets.get(record.id, record.devices)

    def _unheard(self, record: Record) -> bool:
        status = self.status(record.id)
        return record.active and (status is None or status.phase in ("absent", "starting"))

    def _uses(self, record: Record) -> frozenset[str]:
        status = self.status(record.id)
        if status is None or not record.active:
            return frozenset(record.devices)
        if status.phase in ("ended", "lost", "absent"):
            return frozenset(record.devices)
        return frozenset(record.devices) | frozenset(status.devices) | frozenset(status.wanted)
