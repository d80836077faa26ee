"""The roster: which worker lives on which slot, who is to be started and who is to be ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from staves.membership._quarantine import Quarantine, node_of
from staves.membership._types import End, Joiner, Start


@dataclass(slots=True)
class Worker:
    """One worker process, from its start until its exit has been seen.

    `ended`: it was told to end and counts no more. `departing`: a commit let it go, it leaves by
    itself. `due`: the time of the next reminder (no hello, not left, not ended).
    """

    member: int
    slot: str
    due: float | None
    joiner: Joiner | None = None
    ended: bool = False
    departing: bool = False
    finished: bool = False


def checked(slots: Sequence[str], minimum: int) -> tuple[str, ...]:
    """Return the wanted slots, or raise ValueError: too few, or one named twice."""
    if len(set(slots)) != len(slots):
        raise ValueError(f"a slot is named twice: {', '.join(slots)}")
    if len(slots) < max(1, minimum):
        raise ValueError(f"{len(slots)} slots for a job of at least {max(1, minimum)}")
    return tuple(slots)


class Roster:
    """The wanted slots and the live workers; a slot has one process at a time."""

    def __init__(
        self,
        slots: Sequence[str],
        *,
        quarantine: Quarantine,
        first_member: int,
        grace: float,
        start_within: float,
    ) -> None:
        self.wanted = tuple(slots)
        self.refused: set[str] = set()
        self.quarantine = quarantine
        self._next = first_member
        self._grace, self._start_within = grace, start_within
        self._workers: dict[int, Worker] = {}
        self._at: dict[str, Worker] = {}

    def __getitem__(self, member: int) -> Worker:
        return self._workers[member]

    def __iter__(self) -> Iterator[Worker]:
        return iter(list(self._workers.values()))

    def about(self, member: int) -> dict[str, Any]:
        """Return what the member said of itself in its hello."""
        joiner = self._workers[member].joiner
        return {} if joiner is None else joiner.about

    def live(self, member: int) -> Worker | None:
        """Return the worker if it lives and has not been told to end."""
        worker = self._workers.get(member)
        return None if worker is None or worker.ended else worker

    def is_wanted(self, member: int) -> bool:
        """Whether the member's slot is among the wanted ones."""
        return self._workers[member].slot in self.wanted

    def ready(self) -> list[int]:
        """Return the members that said hello and are wanted, in slot order."""
        found = (self._at.get(slot) for slot in self.wanted)
        return [w.member for w in found if w and w.joiner and not (w.ended or w.departing)]

    def startable(self, slot: str, now: float) -> bool:
        """Whether a worker may be started there once the slot is free."""
        return slot not in self.refused and self.quarantine.allows(slot, now)

    def pending(self, now: float) -> list[str]:
        """Return the wanted slots from which a hello may still come."""
        found = []
        for slot in self.wanted:
            worker = self._at.get(slot)
            if worker is not None and not (worker.ended or worker.departing):
                if worker.joiner is None:
                    found.append(slot)
            elif self.startable(slot, now):
                found.append(slot)
        return found

    def unusable(self, now: float) -> tuple[str, ...]:
        """Return the wanted slots that have no worker and will get none for now."""
        return tuple(s for s in self.wanted if s not in self._at and not self.startable(s, now))

    def fill(self, now: float) -> list[Start]:
        """Start a worker on each wanted slot that is free and may be used."""
        starts = []
        for slot in self.wanted:
            if slot not in self._at and self.startable(slot, now):
                worker = Worker(self._next, slot, due=now + self._start_within)
                self._next += 1
                self._workers[worker.member] = self._at[slot] = worker
                starts.append(Start(worker.member, slot))
        return starts

    def end(
        self, member: int, reason: str, now: float, *, politely: bool = False, failed: bool = False
    ) -> list[End]:
        """Tell a worker to end; one told politely is reminded after `grace`."""
        worker = self._workers[member]
        if worker.ended:
            return []
        worker.ended = True
        worker.due = now + self._grace if politely else None
        if failed:
            self.quarantine.failed(worker.slot, now)
        return [End(member, reason, politely)]

    def depart(self, member: int, now: float | None) -> None:
        """A commit lets this member go; it is reminded after `grace`, from `now` on."""
        worker = self._workers[member]
        worker.departing = True
        worker.due = None if now is None else now + self._grace

    def keep(self, member: int) -> None:
        """A commit has this member in it."""
        worker = self._workers[member]
        worker.departing = False
        worker.due = None

    def exited(self, member: int, now: float, *, failed: bool) -> Worker | None:
        """Strike a process off; its failure counts, unless it was told to end."""
        worker = self._workers.pop(member, None)
        if worker is not None:
            del self._at[worker.slot]
            if failed and not worker.ended and not worker.finished:
                self.quarantine.failed(worker.slot, now)
        return worker

    def remind(self, now: float) -> list[End]:
        """End those that never said hello, did not leave, or did not end."""
        ends: list[End] = []
        for worker in self:
            if worker.due is None or now < worker.due:
                continue
            if worker.ended:
                worker.due = None
                ends.append(End(worker.member, "it did not end when asked to"))
            elif worker.departing:
                ends += self.end(worker.member, "it did not leave", now, politely=True)
            else:
                reason = f"it was not ready within {self._start_within:g} s of its start"
                ends += self.end(worker.member, reason, now, failed=True)
        return ends

    def deadlines(self) -> Iterator[float]:
        """Yield the times at which `remind` or `fill` may have something to do."""
        for worker in self._workers.values():
            if worker.due is not None:
                yield worker.due
        for slot in self.wanted:
            if slot not in self._at and slot not in self.refused:
                yield self.quarantine.until(slot)

    def shortage(self, now: float) -> str:
        """Say in words why wanted slots have no worker."""
        why = [f"{slot}: unlike the other members" for slot in self.wanted if slot in self.refused]
        nodes = {node_of(s) for s in self.wanted if not self.quarantine.allows(s, now)}
        why += [
            f"{node}: {self.quarantine.limit} failures within {self.quarantine.within:g} s"
            for node in sorted(nodes)
        ]
        return "; ".join(why) or "no slot is left"
