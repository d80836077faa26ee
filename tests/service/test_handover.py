"""Devices are taken before they are given: no decision puts two jobs on one device."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from staves.service._handover import Holder, moves
from staves.service._states import Grant, Preempt, Record, State

DEVICES = tuple(f"n/{i}" for i in range(6))


def record(job: str, devices: tuple[str, ...] = (), *, elastic: bool = True) -> Record:
    state: State = "running" if devices else "queued"
    return Record(job, f"j{job}", state, elastic, attempt=1, devices=devices)


def test_a_free_device_is_given_at_once() -> None:
    assert moves([Holder(record("1"), ("n/0", "n/1"))]) == {"1": Grant(("n/0", "n/1"))}


def test_what_another_has_is_waited_for() -> None:
    has = Holder(record("1", ("n/0", "n/1")), ("n/0",))
    wants = Holder(record("2"), ("n/1", "n/2"))
    assert moves([has, wants])["1"] == Grant(("n/0",))
    # Still on its way out: the job that leaves holds it.
    leaving = Holder(record("1", ("n/0",)), ("n/0",), frozenset({"n/0", "n/1"}))
    assert "2" not in moves([leaving, Holder(record("2", ("n/3",)), ("n/3", "n/1"))])
    gone = Holder(record("1", ("n/0",)), ("n/0",), frozenset({"n/0"}))
    assert moves([gone, wants]) == {"2": Grant(("n/1", "n/2"))}


def test_a_job_that_gets_nothing_is_preempted() -> None:
    assert moves([Holder(record("1", ("n/0",)), ())]) == {"1": Preempt()}
    assert moves([Holder(record("1", ("n/0",), elastic=False), ())]) == {}


def test_two_that_want_each_others_devices_do_not_wait_for_ever() -> None:
    one = Holder(record("1", ("n/0",)), ("n/1",))
    two = Holder(record("2", ("n/1",)), ("n/0",))
    assert moves([one, two]) == {"1": Preempt()}


@st.composite
def situations(draw: st.DrawFn) -> list[Holder]:
    """Jobs with devices of their own, and disjoint targets."""
    count = draw(st.integers(1, 4))
    owners = [draw(st.integers(-1, count - 1)) for _ in DEVICES]
    wanters = [draw(st.integers(-1, count - 1)) for _ in DEVICES]
    holders = []
    for job in range(count):
        has = tuple(d for d, owner in zip(DEVICES, owners, strict=True) if owner == job)
        target = tuple(d for d, wanter in zip(DEVICES, wanters, strict=True) if wanter == job)
        minimum = draw(st.integers(1, max(1, len(target))))
        elastic = draw(st.booleans())
        if not elastic and has:
            # What cannot be resized is never decided to be.
            target = has
        holders.append(Holder(record(str(job), has, elastic=elastic), target, frozenset(), minimum))
    taken: set[str] = set()
    for holder in holders:
        if not holder.record.elastic and holder.record.devices:
            taken |= set(holder.target)
    for index, holder in enumerate(holders):
        if holder.record.elastic or not holder.record.devices:
            target = tuple(d for d in holder.target if d not in taken)
            holders[index] = replace(
                holder, target=target, minimum=max(1, min(holder.minimum, len(target)))
            )
    return holders


def carry_out(holder: Holder, move: Grant | Preempt | None) -> Holder:
    """The job does what it was told, in two steps: granted, then in force."""
    old = holder.record
    if move is None:
        return replace(holder, uses=frozenset(old.devices))
    if isinstance(move, Preempt):
        gone = replace(old, state="queued", devices=())
        return replace(holder, record=gone, uses=frozenset())
    new = replace(old, state="running", devices=move.devices)
    return replace(holder, record=new, uses=frozenset(old.devices) | frozenset(move.devices))


@settings(max_examples=500, deadline=None)
@given(situations())
def test_targets_are_reached_and_no_device_is_held_twice(holders: list[Holder]) -> None:
    for _ in range(12):
        done = moves(holders)
        holders = [carry_out(holder, done.get(holder.record.id)) for holder in holders]
        seen: dict[str, str] = {}
        for holder in holders:
            for name in holder.held:
                assert seen.setdefault(name, holder.record.id) == holder.record.id
        if not done and not moves(holders):
            break
    for holder in holders:
        assert set(holder.record.devices) == set(holder.target), [
            (h.record.id, h.record.elastic, h.record.devices, h.target, h.uses, h.minimum)
            for h in holders
        ]
