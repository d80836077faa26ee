"""From what was decided to what can be granted now: a device is taken before it is given. Pure.

A decision moves devices between jobs. The job that gives one up has to leave it first, at a step
boundary of its own or after it was saved; until then it is nobody else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from staves.service._states import Grant, Preempt, Record


@dataclass(frozen=True, slots=True)
class Holder:
    """A job with devices, or one that is to get some.

    Args:
        record: as it is stored.
        target: names of the devices that it shall have, in the order of ranks.
        uses: those that its workers may still use, granted or not.
        minimum: devices below which it cannot run.
        unheard: an attempt was launched, and has not said yet what it uses: it is left alone.
    """

    record: Record
    target: tuple[str, ...]
    uses: frozenset[str] = frozenset()
    minimum: int = 1
    unheard: bool = False

    @property
    def held(self) -> frozenset[str]:
        """The devices that nobody else may be given."""
        return self.uses | frozenset(self.record.devices)

    @property
    def settled(self) -> bool:
        """Whether it has what it shall have."""
        return set(self.target) == set(self.record.devices)


Moves = dict[str, Grant | Preempt]
"""By job id."""


def moves(holders: Sequence[Holder]) -> Moves:
    """Return what can be done now towards the targets; nothing for a job that has to wait.

    A job that gives devices up does so at once. One that gets devices waits until all of them are
    free, so that it changes once. Where jobs wait for each other in a circle (each wants what the
    other has, and neither can do with less), one of them is preempted: the one with the fewest
    devices.

    No device is in two grants, or in a grant while another job holds it.
    """
    taken: dict[str, str] = {}
    for holder in holders:
        for name in holder.held:
            taken.setdefault(name, holder.record.id)
    result: Moves = {}
    blocked: list[Holder] = []
    coming = any(_changes(holder) for holder in holders)
    for holder in holders:
        record = holder.record
        if holder.settled or holder.unheard or record.state == "saving":
            continue
        if not holder.target:
            if record.active and record.elastic:
                result[record.id] = Preempt()
            continue
        mine = tuple(name for name in holder.target if taken.get(name, record.id) == record.id)
        partly = _gives(holder) if record.active else bool(record.elastic)
        move: Grant | None = None
        if len(mine) == len(holder.target) or (partly and len(mine) >= holder.minimum):
            move = Grant(mine)
        elif record.active and _gives(holder) and len(mine) < holder.minimum:
            blocked.append(holder)
        if move is not None and set(move.devices) != set(record.devices):
            result[record.id] = move
            for name in move.devices:
                taken[name] = record.id
    if blocked and not result and not coming:
        first = min(blocked, key=lambda h: (len(h.record.devices), h.record.id))
        result[first.record.id] = Preempt()
    return result


def _changes(holder: Holder) -> bool:
    """Say whether it is about to let go of devices, or may be."""
    record = holder.record
    return holder.unheard or record.state == "saving" or holder.held != set(record.devices)


def _gives(holder: Holder) -> bool:
    return bool(set(holder.record.devices) - set(holder.target))
