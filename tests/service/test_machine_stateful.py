"""The controller's loop over a small engine, with a controller that dies anywhere in its turn.

Nothing is lost, no attempt runs twice, never two of one job at once, and every job comes to an end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from staves.engines._base import Ended as EngineEnded
from staves.engines._base import Status
from staves.service._machine import advance, events_of, orders
from staves.service._states import (
    Event,
    Grant,
    IllegalEvent,
    NotStarted,
    Pause,
    Preempt,
    Record,
    ResizeOrder,
    Resume,
    Shutdown,
    StartOrder,
    Stop,
    StopOrder,
)

WORK = 6
KNOWLEDGE: dict[str, Any] = {"lines": {"a": []}}


@dataclass
class Attempt:
    """One attempt as the engine runs it: it trains to the end of the job's work, and then ends."""

    devices: tuple[str, ...]
    elastic: bool
    done: int
    begun: int
    status: Status = field(default_factory=lambda: Status("starting"))
    told: StopOrder | None = None

    @property
    def alive(self) -> bool:
        return self.status.phase in ("starting", "running")

    def end(self, ended: EngineEnded) -> None:
        self.status = replace(self.status, phase="ended", ended=ended)


@dataclass
class Job:
    """What the world knows of a job, beside its stored record."""

    record: Record
    elastic: bool
    attempts: dict[int, Attempt] = field(default_factory=dict)
    saved: int = 0
    broken_starts: int = 0
    refused_starts: int = 0
    stopped_by_user: bool = False
    shutdowns: int = 0
    losses: int = 0

    def tick(self) -> None:
        """Let the engine's side of the job go on by one step."""
        for attempt in self.attempts.values():
            status = attempt.status
            if status.phase == "starting":
                attempt.status = replace(status, phase="running", devices=attempt.devices)
            elif status.phase == "running":
                self._run(attempt)

    def _run(self, attempt: Attempt) -> None:
        if attempt.elastic:
            known = KNOWLEDGE if attempt.status.elastic else None
            attempt.status = replace(attempt.status, elastic=True, knowledge=known)
        attempt.status = replace(attempt.status, devices=attempt.devices)
        if attempt.told is not None:
            if attempt.told.save:
                self.saved = attempt.done
            attempt.end(EngineEnded("saved" if attempt.told.save else "stopped"))
            return
        attempt.done += 1
        if attempt.done == WORK:
            attempt.end(EngineEnded("finished"))

    def status(self, number: int) -> Status:
        attempt = self.attempts.get(number)
        return Status("absent") if attempt is None else attempt.status

    def obey(self, order: StartOrder | ResizeOrder | StopOrder) -> None:
        """Do as the engine's contract says: every call may be repeated."""
        attempt = self.attempts.get(order.attempt)
        if isinstance(order, StartOrder):
            if attempt is not None:
                return
            assert not any(a.alive for a in self.attempts.values()), "two attempts at once"
            begun = self.saved if self.elastic else 0
            self.attempts[order.attempt] = Attempt(order.devices, self.elastic, begun, begun)
        elif isinstance(order, ResizeOrder):
            assert attempt is not None
            assert attempt.elastic
            if order.request > attempt.status.request:
                attempt.devices = order.devices
                attempt.status = replace(
                    attempt.status, request=order.request, wanted=order.devices
                )
        else:
            assert attempt is not None, "what was never started cannot be stopped"
            attempt.told = order


class Life(RuleBasedStateMachine):
    """Random events, crashes between storing and telling, orders told twice."""

    @initialize(elastic=st.booleans(), retries=st.integers(0, 2))
    def submit(self, elastic: bool, retries: int) -> None:
        self.job = Job(Record("1", "j", retries=retries), elastic)

    def take(self, event: Event) -> bool:
        """Store what comes of the event; False where it is refused."""
        try:
            self.job.record = advance(self.job.record, event)
        except IllegalEvent:
            return False
        return True

    @rule(stored=st.integers(0, 4), told=st.integers(0, 2), twice=st.booleans())
    def turn(self, stored: int = 9, told: int = 9, twice: bool = False) -> None:
        """One turn of the controller, which dies after `stored` events or `told` orders."""
        job = self.job
        status = job.status(job.record.attempt)
        events = events_of(job.record, status)
        for event in events[:stored]:
            assert self.take(event), f"{event} was refused"
        if stored < len(events):
            return
        assert events_of(job.record, status) == ()
        for order in orders(job.record, status)[:told]:
            for _ in range(1 + twice):
                if isinstance(order, StartOrder) and job.broken_starts:
                    job.broken_starts -= 1
                    job.refused_starts += 1
                    assert self.take(NotStarted("no memory"))
                    return
                job.obey(order)

    @rule()
    def engine_goes_on(self) -> None:
        self.job.tick()

    @rule(devices=st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
    def scheduler_grants(self, devices: list[str]) -> None:
        self.take(Grant(tuple(devices)))

    @rule(event=st.sampled_from([Preempt(), Pause(), Resume()]))
    def somebody_wants(self, event: Event) -> None:
        self.take(event)

    @rule(sure=st.integers(0, 5))
    def somebody_stops_it(self, sure: int) -> None:
        if sure == 0 and self.take(Stop()):
            self.job.stopped_by_user = True

    @rule()
    def service_goes_down(self) -> None:
        if self.take(Shutdown()):
            self.job.shutdowns += 1

    @rule()
    def supervisor_dies(self) -> None:
        for attempt in self.job.attempts.values():
            if attempt.alive:
                self.job.losses += 1
                attempt.status = replace(attempt.status, phase="lost")

    @rule()
    def next_start_fails(self) -> None:
        self.job.broken_starts += 1

    @invariant()
    def never_two_at_once(self) -> None:
        if not hasattr(self, "job"):
            return
        job = self.job
        alive = [number for number, attempt in job.attempts.items() if attempt.alive]
        assert alive in ([], [job.record.attempt]), "an attempt that nobody watches runs"
        assert not alive or job.record.active, "it runs, and has no devices"

    def teardown(self) -> None:
        """No more faults: the job comes to its end, by whole turns and by grants alone."""
        if not hasattr(self, "job"):
            return
        job = self.job
        job.broken_starts = 0
        for _ in range(50):
            if job.record.final:
                break
            self.take(Resume())
            if job.record.state == "queued":
                self.take(Grant(("a",)))
            self.turn()
            job.tick()
        record = job.record
        assert record.final, record
        assert not any(attempt.alive for attempt in job.attempts.values())
        if record.state == "finished":
            assert job.attempts[record.attempt].done == WORK
        elif record.state == "cancelled":
            assert job.stopped_by_user
        else:
            exhausted = job.losses + job.refused_starts > record.retries
            only_once = record.elastic is None and (
                job.losses > 0 or (job.shutdowns > 0 and record.retries == 0)
            )
            assert exhausted or only_once, record
        if not job.elastic:  # it begins anew only where nothing else could have been meant
            assert len(job.attempts) <= 1 + job.shutdowns


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=500, stateful_step_count=30)
