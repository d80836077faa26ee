"""The life of a job, as a pure state machine: a record and an event in, the new record out.

What the controller does in each turn, for each job: ask the engine for its status, take in what
that says (`events_of`, `advance`), store the record, and tell the engine what it has not been told
(`orders`). Nothing is remembered elsewhere: a controller that dies anywhere in a turn is followed
by one that begins the turn anew from the stored record, and comes to the same end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

from staves.engines._base import Status
from staves.service._states import (
    ACTIVE,
    LONGEST_STORY,
    Ended,
    Event,
    Formed,
    Goal,
    Grant,
    Hello,
    IllegalEvent,
    Lost,
    Measured,
    NotStarted,
    Order,
    Pause,
    Preempt,
    Record,
    ResizeOrder,
    Resume,
    Shutdown,
    StartOrder,
    State,
    Stop,
    StopOrder,
)

ALONE = 30
"""Steps on one device after which its time there counts as measured: a fit needs two splits."""

_VERBS: dict[type, str] = {
    Grant: "given devices",
    Preempt: "preempted",
    Pause: "paused",
    Resume: "resumed",
    Stop: "stopped",
    Shutdown: "ended for a shutdown",
    Hello: "found elastic",
    Measured: "measured",
    Formed: "resized",
    Ended: "ended",
    Lost: "lost",
    NotStarted: "started",
}


def advance(record: Record, event: Event) -> Record:
    """Return the record after the event; the same one where it changes nothing.

    Raises:
        IllegalEvent: the job is in no state for that event.
    """
    match event:
        case Grant(devices):
            return _grant(record, devices)
        case Stop():
            return _stop(record)
        case Pause():
            return _pause(record)
        case Resume():
            return _resume(record)
        case Preempt():
            return _preempt(record)
        case Shutdown():
            return _shutdown(record)
    if not record.active:
        _refuse(record, event)
    match event:
        case Hello():
            state = _working(record.measured) if record.state == "running" else record.state
            return _to(replace(record, elastic=True), state)
        case Measured():
            state = "running" if record.state == "probing" else record.state
            return _to(replace(record, measured=True), state)
        case Formed(request):
            if record.state == "rescaling" and request >= record.request:
                return _to(record, _working(record.measured))
            return record
        case Ended():
            return _ended(record, event)
        case Lost(reason):
            return _lost(record, reason)
        case NotStarted(reason):
            return _not_started(record, reason)


def events_of(record: Record, status: Status) -> tuple[Event, ...]:
    """Return what the engine's status means for the job, in the order in which it is to be taken.

    The status is that of attempt `record.attempt`. Once the events are taken in, the same status
    yields none.
    """
    if not record.active:
        return ()
    events: list[Event] = []
    if status.elastic and not record.elastic:
        events.append(Hello())
    if status.elastic and not record.measured and _is_measured(status):
        events.append(Measured())
    match status.phase:
        case "ended" if status.ended is not None:
            end, trained = status.ended, bool(status.spans)
            events.append(Ended(end.end, end.reason, end.status, trained))
        case "lost":
            events.append(Lost())
        case "absent" if record.state == "saving":
            events.append(Ended("stopped", "it had not been started"))
        case "running" if record.state == "rescaling" and _formed(record, status):
            events.append(Formed(status.request))
    return tuple(events)


def orders(record: Record, status: Status) -> tuple[Order, ...]:
    """Return what the engine has still to be told, by what it shows. May be told again.

    The status is that of attempt `record.attempt`, and what it means (`events_of`) is taken in.
    """
    alive = status.phase in ("starting", "running")
    if record.state == "saving" or (alive and not record.active):
        # A job that is over for us, and yet runs, would keep its devices for ever.
        return (StopOrder(record.attempt, record.save),) if alive else ()
    if not record.active:
        return ()
    if status.phase == "absent":
        return (StartOrder(record.attempt, record.devices),)
    if status.phase == "running" and status.request < record.request:
        return (ResizeOrder(record.attempt, record.devices, record.request),)
    return ()


def _is_measured(status: Status) -> bool:
    """Say whether its speed is known: by a fit, or, of one device, from enough steps."""
    if (status.knowledge or {}).get("lines"):
        return True
    progress = status.progress
    steps = int(progress.get("step") or 0)
    return len(status.devices) == 1 and steps >= ALONE and bool(progress.get("step_seconds"))


def _formed(record: Record, status: Status) -> bool:
    return status.request >= record.request and set(status.devices) == set(record.devices)


def _working(measured: bool) -> State:
    return "running" if measured else "probing"


def _to(record: Record, state: State, **changes: Any) -> Record:
    """Return the record in `state`; what belongs to an attempt alone goes with it."""
    if state != record.state:
        changes["story"] = (*record.story, state)[-LONGEST_STORY:]
        changes.setdefault("reason", "")
    if state not in ACTIVE:
        changes |= {"devices": (), "request": 0}
    if state != "saving":
        changes |= {"goal": None, "save": False}
    return replace(record, state=state, **changes)


def _grant(record: Record, devices: tuple[str, ...]) -> Record:
    if not devices or len(set(devices)) < len(devices):
        raise IllegalEvent(
            f"{record.title}: {', '.join(devices) or 'nothing'} cannot be granted",
            hint="grant one device or more, each of them once",
        )
    if record.state == "queued":
        # Whether it is elastic may be known from an earlier attempt, or not before it says so.
        state = _working(record.measured) if record.elastic else "running"
        return _to(record, state, attempt=record.attempt + 1, request=0, devices=devices)
    if record.state not in ("probing", "running", "rescaling"):
        _refuse(record, Grant(devices))
    if set(devices) == set(record.devices):
        return record
    _needs_elastic(record, "given other devices")
    return _to(record, "rescaling", request=record.request + 1, devices=devices)


def _stop(record: Record) -> Record:
    if record.final:
        _refuse(record, Stop())
    if record.state in ("queued", "paused"):
        return _to(record, "cancelled", reason="it was stopped")
    if record.state == "saving":
        return replace(record, goal="cancelled", reason="it was stopped")
    return _end(record, "cancelled", "it was stopped")


def _pause(record: Record) -> Record:
    if record.state == "queued":
        return _to(record, "paused", reason="it was paused")
    if record.state == "saving" and record.save and record.goal != "cancelled":
        return replace(record, goal="paused", reason="it was paused")
    if record.state not in ("probing", "running", "rescaling"):
        _refuse(record, Pause())
    _needs_elastic(record, "paused")
    return _end(record, "paused", "it was paused")


def _resume(record: Record) -> Record:
    if record.state == "paused":
        return _to(record, "queued", reason="it was resumed")
    if record.state == "saving" and record.goal == "paused":
        return replace(record, goal="queued", reason="it was resumed")
    _refuse(record, Resume())


def _preempt(record: Record) -> Record:
    if record.state not in ("probing", "running", "rescaling"):
        _refuse(record, Preempt())
    _needs_elastic(record, "preempted")
    return _end(record, "queued", "its devices were taken")


def _shutdown(record: Record) -> Record:
    if record.final:
        _refuse(record, Shutdown())
    if record.state in ("queued", "paused", "saving"):
        return record
    return _end(record, "queued", "the service went down")


def _end(record: Record, goal: Goal, reason: str) -> Record:
    return _to(record, "saving", goal=goal, save=record.elastic is True, reason=reason)


def _ended(record: Record, event: Ended) -> Record:
    changes = {"reason": event.reason, "status": event.status}
    match event.end:
        case "finished":
            # One that never said hello does not train with staves.
            return _to(record, "finished", elastic=record.elastic is True, **changes)
        case "failed":
            return _to(record, "failed", **changes)
        case "saved":
            return _to(record, record.goal or "queued", reason=record.reason or event.reason)
        case "stopped":
            if record.state == "saving":
                return _stopped(record)
            reason = event.reason or "it was stopped by somebody else"
            if record.elastic and event.trained:
                # Preempted by the cluster, or its nodes died: no fault of the job's, however often.
                return _to(record, "queued", reason=reason)
            return _lost(record, reason)
        case "unplaced":
            # Nobody's failure but the cluster's: what was acknowledged waits until it can be had.
            if record.state == "saving":
                return _stopped(record)
            return _to(record, "queued", reason=event.reason)


def _stopped(record: Record) -> Record:
    """It has ended as it was told, without its state.

    One that is not elastic comes here with goal `queued` only at a shutdown, which was nobody's
    failure: it begins anew at the next start, unless its owner has ruled that out.
    """
    if record.goal == "queued" and not record.elastic and record.retries == 0:
        reason = f"{record.reason}: it was not run again, because it is not elastic, and retries: 0"
        return _to(record, "failed", reason=reason)
    return _to(record, record.goal or "queued", reason=record.reason)


def _lost(record: Record, reason: str) -> Record:
    if record.state == "saving":  # it was to end; what it had saved before, it still has
        return _stopped(record)
    if not record.elastic:
        reason = f"{reason}: it was not run again, because it is not known to be elastic"
        return _to(record, "failed", reason=reason)
    return _again(record, reason)


def _not_started(record: Record, reason: str) -> Record:
    # Nothing of it ran: it may be tried again whether it is elastic or not.
    return _stopped(record) if record.state == "saving" else _again(record, reason)


def _again(record: Record, reason: str) -> Record:
    failures = record.failures + 1
    if failures > record.retries:
        times = f"; {record.failures} retries before" if record.failures else ""
        return _to(record, "failed", reason=f"{reason}{times}")
    return _to(record, "queued", failures=failures, reason=reason)


def _needs_elastic(record: Record, verb: str) -> None:
    if not record.elastic:
        raise IllegalEvent(
            f"{record.title} is not elastic: it cannot be {verb}",
            hint="it has not said so far that it trains with staves; it can be stopped",
        )


def _refuse(record: Record, event: Event) -> NoReturn:
    story = " > ".join(record.story)
    why = f"; {record.reason}" if record.reason else ""
    raise IllegalEvent(
        f"{record.title} is {record.state}: it cannot be {_VERBS[type(event)]}",
        hint=f"its story: {story}{why}",
    )
