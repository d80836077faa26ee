"""Every event in every state: what comes of it, or that it is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staves.engines._base import Ended as EngineEnded
from staves.engines._base import Phase, Status
from staves.service._machine import ALONE, advance, events_of, orders
from staves.service._states import (
    ACTIVE,
    LONGEST_STORY,
    STATES,
    Ended,
    Event,
    Formed,
    Grant,
    Hello,
    IllegalEvent,
    Lost,
    Measured,
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

EVENTS: dict[str, Event] = {
    "grant": Grant(("n/t4-1",)),
    "grant-same": Grant(("n/t4-0",)),
    "preempt": Preempt(),
    "pause": Pause(),
    "resume": Resume(),
    "stop": Stop(),
    "shutdown": Shutdown(),
    "hello": Hello(),
    "measured": Measured(),
    "formed": Formed(1),
    "finished": Ended("finished"),
    "failed": Ended("failed", "rank 0 raised", 1),
    "saved": Ended("saved"),
    "stopped": Ended("stopped"),
    "unplaced": Ended("unplaced", "n: no agent: preempted"),
    "lost": Lost(),
    "not-started": NotStarted("no memory"),
}

BASE = Record("3", "digits")
WORKING = replace(BASE, state="running", attempt=1, devices=("n/t4-0",))
ELASTIC = replace(WORKING, elastic=True, measured=True)
RECORDS: dict[str, Record] = {
    "queued": BASE,
    "plain": replace(WORKING, elastic=None),  # running, and nothing heard of it
    "probing": replace(ELASTIC, state="probing", measured=False),
    "running": ELASTIC,
    "rescaling": replace(ELASTIC, state="rescaling", request=1),
    "paused": replace(BASE, state="paused"),
    "preempted": replace(ELASTIC, state="saving", goal="queued", save=True),
    "pausing": replace(ELASTIC, state="saving", goal="paused", save=True),
    "cancelling": replace(ELASTIC, state="saving", goal="cancelled", save=True),
    "plain-down": replace(WORKING, state="saving", goal="queued"),
    "finished": replace(BASE, state="finished"),
    "failed": replace(BASE, state="failed"),
    "cancelled": replace(BASE, state="cancelled"),
}

# One row for each event; `-` is refused, `=` leaves the record as it is. A state after a slash is
# the goal of the saving. Columns as in RECORDS, the three final ones as one.
TABLE = """
event        queued    plain             probing          running          rescaling        paused    preempted        pausing          cancelling       plain-down       final
grant        running   -                 rescaling        rescaling        rescaling        -         -                -                -                -                -
grant-same   running   =                 =                =                =                -         -                -                -                -                -
preempt      -         -                 saving/queued    saving/queued    saving/queued    -         -                -                -                -                -
pause        paused    -                 saving/paused    saving/paused    saving/paused    -         saving/paused    saving/paused    -                -                -
resume       -         -                 -                -                -                queued    -                saving/queued    -                -                -
stop         cancelled saving/cancelled  saving/cancelled saving/cancelled saving/cancelled cancelled saving/cancelled saving/cancelled saving/cancelled saving/cancelled -
shutdown     =         saving/queued     saving/queued    saving/queued    saving/queued    =         =                =                =                =                -
hello        -         probing           =                =                =                -         =                =                =                saving/queued    -
measured     -         running           running          =                =                -         =                =                =                saving/queued    -
formed       -         =                 =                =                running          -         =                =                =                =                -
finished     -         finished          finished         finished         finished         -         finished         finished         finished         finished         -
failed       -         failed            failed           failed           failed           -         failed           failed           failed           failed           -
saved        -         queued            queued           queued           queued           -         queued           paused           cancelled        queued           -
stopped      -         failed            queued           queued           queued           -         queued           paused           cancelled        queued           -
unplaced     -         queued            queued           queued           queued           -         queued           paused           cancelled        queued           -
lost         -         failed            queued           queued           queued           -         queued           paused           cancelled        queued           -
not-started  -         queued            queued           queued           queued           -         queued           paused           cancelled        queued           -
"""  # noqa: E501


def rows() -> list[tuple[str, str, str]]:
    lines = [line.split() for line in TABLE.strip().splitlines()]
    columns = lines[0][1:]
    found = []
    for event, *cells in lines[1:]:
        for column, cell in zip(columns, cells, strict=True):
            names = ["finished", "failed", "cancelled"] if column == "final" else [column]
            found += [(name, event, cell) for name in names]
    return found


def test_the_table_is_whole() -> None:
    assert {(name, event) for name, event, _ in rows()} == {
        (name, event) for name in RECORDS for event in EVENTS
    }
    assert {record.state for record in RECORDS.values()} == set(STATES)


@pytest.mark.parametrize(("name", "event", "expected"), rows())
def test_every_pair(name: str, event: str, expected: str) -> None:
    record = RECORDS[name]
    if expected == "-":
        with pytest.raises(IllegalEvent) as caught:
            advance(record, EVENTS[event])
        message = str(caught.value)
        assert message.startswith("job 3 (digits) is ")
        assert "\n" not in message
        assert caught.value.hint
        return
    after = advance(record, EVENTS[event])
    if expected == "=":
        assert after == record
        return
    state, _, goal = expected.partition("/")
    assert after.state == state
    assert after.goal == (goal or None)
    assert bool(after.devices) == (after.state in ACTIVE)
    assert after.story[-1] == state or after.state == record.state
    assert (after.failures > record.failures) == (
        state == "queued" and record.goal is None and event in ("stopped", "lost", "not-started")
    )
    assert Record.from_document(after.to_document()) == after


def test_a_refusal_tells_the_story() -> None:
    record = advance(BASE, Grant(("a",)))
    record = advance(record, Ended("failed", "rank 0 raised KeyError", 1))
    assert record.status == 1
    with pytest.raises(IllegalEvent) as caught:
        advance(record, Pause())
    assert str(caught.value) == (
        "job 3 (digits) is failed: it cannot be paused"
        " (its story: queued > running > failed; rank 0 raised KeyError)"
    )


def test_what_is_not_elastic_says_so() -> None:
    for event in (Pause(), Preempt(), Grant(("a", "b"))):
        with pytest.raises(IllegalEvent, match="is not elastic"):
            advance(WORKING, event)


@pytest.mark.parametrize("devices", [(), ("a", "a")])
def test_a_grant_is_some_devices_each_once(devices: tuple[str, ...]) -> None:
    with pytest.raises(IllegalEvent, match="cannot be granted"):
        advance(BASE, Grant(devices))


def test_attempts_and_requests_are_numbered() -> None:
    record = advance(BASE, Grant(("a",)))
    record = advance(record, Hello())
    record = advance(record, Grant(("a", "b")))
    record = advance(record, Grant(("b",)))
    assert (record.attempt, record.request, record.state) == (1, 2, "rescaling")
    assert advance(record, Formed(1)) == record, "of an older request"
    record = advance(record, Formed(2))
    assert record.state == "probing"
    record = advance(advance(record, Measured()), Preempt())
    record = advance(record, Ended("saved"))
    record = advance(record, Grant(("c",)))
    assert (record.attempt, record.request, record.state) == (2, 0, "running")
    assert record.elastic


def test_retries_run_out() -> None:
    record = replace(BASE, retries=2)
    record = advance(advance(record, Grant(("a",))), Hello())
    for failures in (1, 2):
        record = advance(record, Lost("node n died"))
        assert (record.state, record.failures) == ("queued", failures)
        record = advance(record, Grant(("a",)))
    record = advance(record, Lost("node n died"))
    assert (record.state, record.reason) == ("failed", "node n died; 2 retries before")


def test_what_the_cluster_takes_is_no_retry_once_it_had_trained() -> None:
    record = replace(BASE, retries=1)
    for _ in range(5):
        record = advance(advance(record, Grant(("a",))), Hello())
        record = advance(record, Ended("stopped", "a was lost: preempted", trained=True))
        assert (record.state, record.failures) == ("queued", 0)
        assert record.reason == "a was lost: preempted"
    for state in ("queued", "failed"):  # what never comes to train may not be tried for ever
        record = advance(advance(record, Grant(("a",))), Ended("stopped", "a was lost"))
        assert record.state == state


def test_a_job_that_the_cluster_does_not_let_begin_waits_on() -> None:
    record = replace(BASE, retries=0)
    for _ in range(5):
        record = advance(record, Grant(("a",)))
        record = advance(record, Ended("unplaced", "n: no agent: its place was not to be had"))
        assert (record.state, record.failures) == ("queued", 0)
        assert record.reason == "n: no agent: its place was not to be had"


def test_spans_tell_that_it_trained() -> None:
    ended = EngineEnded("stopped", "a was lost")
    for spans in ((), ({"steps": 3},)):
        status = Status("ended", elastic=True, spans=spans, ended=ended)
        (event,) = events_of(replace(ELASTIC, measured=True), status)
        assert event == Ended("stopped", "a was lost", trained=bool(spans))


def test_what_may_not_run_twice_is_not_run_again_after_a_shutdown() -> None:
    record = replace(RECORDS["plain-down"], retries=0)
    for event in (Ended("stopped"), Lost()):
        after = advance(record, event)
        assert after.state == "failed"
        assert "retries: 0" in after.reason
    elastic = replace(RECORDS["preempted"], retries=0)
    assert advance(elastic, Ended("saved")).state == "queued"


def test_only_what_finishes_without_a_word_is_known_to_be_not_elastic() -> None:
    assert advance(WORKING, Ended("finished")).elastic is False
    assert advance(WORKING, Ended("failed")).elastic is None
    assert advance(ELASTIC, Ended("finished")).elastic is True


def test_the_story_is_bounded() -> None:
    record = BASE
    for _ in range(2 * LONGEST_STORY):
        record = advance(advance(record, Pause()), Resume())
    assert len(record.story) == LONGEST_STORY


def test_orders_follow_from_record_and_status() -> None:
    granted = advance(BASE, Grant(("a", "b")))
    assert orders(BASE, Status("absent")) == ()
    assert orders(granted, Status("absent")) == (StartOrder(1, ("a", "b")),)
    assert orders(granted, Status("starting")) == ()
    assert orders(granted, Status("running")) == ()
    resized = advance(advance(granted, Hello()), Grant(("a",)))
    assert orders(resized, Status("absent")) == (StartOrder(1, ("a",)),)
    assert orders(resized, Status("starting")) == ()
    assert orders(resized, Status("running", request=0)) == (ResizeOrder(1, ("a",), 1),)
    assert orders(resized, Status("running", request=1)) == ()
    saving = advance(resized, Preempt())
    alive: tuple[Phase, ...] = ("starting", "running")
    for phase in alive:
        assert orders(saving, Status(phase)) == (StopOrder(1, save=True),)
    over: tuple[Phase, ...] = ("absent", "ended", "lost")
    for phase in over:
        assert orders(saving, Status(phase)) == ()
    assert orders(advance(granted, Stop()), Status("running")) == (StopOrder(1, save=False),)


@pytest.mark.parametrize("state", ["queued", "paused", "finished", "failed", "cancelled"])
def test_what_runs_and_should_not_is_ended(state: str) -> None:
    record = replace(RECORDS[state], attempt=1)
    assert orders(record, Status("running")) == (StopOrder(1, save=False),)
    assert events_of(record, Status("running", elastic=True)) == ()


def test_a_status_is_taken_in_once() -> None:
    knowledge: dict[str, Any] = {"lines": {"a": []}}
    status = Status("running", elastic=True, devices=("a",), knowledge=knowledge)
    record = advance(BASE, Grant(("a",)))
    assert events_of(record, status) == (Hello(), Measured())
    for event in events_of(record, status):
        record = advance(record, event)
    assert record.state == "running"
    assert events_of(record, status) == ()
    record = advance(record, Grant(("a", "b")))
    both = replace(status, devices=("b", "a"))
    assert events_of(record, both) == (), "of a generation before the request"
    assert events_of(record, replace(both, request=1)) == (Formed(1),)
    assert events_of(record, replace(status, request=1)) == (), "not all of them are at work"
    ended = replace(both, phase="ended", request=1, ended=EngineEnded("failed", "why", -9))
    assert events_of(record, ended) == (Ended("failed", "why", -9),)


def test_one_device_alone_is_measured_by_its_steps() -> None:
    record = replace(RECORDS["probing"], measured=False)
    few = {"step": ALONE - 1, "step_seconds": 0.1}
    status = Status("running", elastic=True, devices=("a",), progress=few)
    assert events_of(record, status) == ()
    enough = replace(status, progress={**few, "step": ALONE})
    assert events_of(record, enough) == (Measured(),)
    assert events_of(record, replace(enough, devices=("a", "b"))) == (), "a fit is on its way"


def test_an_empty_knowledge_measures_nothing() -> None:
    record = advance(BASE, Grant(("a",)))
    empty: tuple[dict[str, Any] | None, ...] = (None, {}, {"lines": {}})
    for knowledge in empty:
        status = Status("running", elastic=True, knowledge=knowledge)
        assert events_of(record, status) == (Hello(),)


def test_what_was_never_started_can_be_ended() -> None:
    record = advance(advance(BASE, Grant(("a",))), Stop())
    (event,) = events_of(record, Status("absent"))
    assert advance(record, event).state == "cancelled"
