"""The supervisor's side of the membership: it alone decides which generation is in force."""

from __future__ import annotations

from collections.abc import Sequence

from staves.membership._decisions import Decisions
from staves.membership._quarantine import Quarantine
from staves.membership._roster import Roster, checked
from staves.membership._selection import Answer
from staves.membership._types import Command, Joiner


class Coordinator(Decisions):
    """Events in, commands out; `now` is in seconds of any clock that does not go back.

    What the engine owes: it carries out commands in their order, and keeps a commit on disk before
    it tells it. Messages to and from a worker are a reliable ordered stream for as long as it
    lives; an answer of a follower is told once. All that a worker has sent is told before its exit.
    A worker that was ended says nothing more that counts, but for steps, which the ledger voids by
    number. Every event also does what is due by its time.

    Args:
        slots: the wanted slots, by name (`node/device`).
        minimum: members below which the job does not train.
        grace: seconds until a silent member is ended (rule 13).
        join_within: seconds that a joiner has to answer, and that a change waits for workers which
            are still starting, so that a burst of wishes makes one change.
        attempt: of the job, a fencing token; `generation`: the highest number used so far.
        first_member: the number of the first worker to be started.
        quarantine: of failing nodes; 3 failures within 600 s where None.
        start_within: seconds from the start of a worker to its hello.
    """

    def __init__(
        self,
        *,
        slots: Sequence[str],
        minimum: int = 1,
        grace: float = 30.0,
        join_within: float = 5.0,
        attempt: int = 1,
        generation: int = 0,
        first_member: int = 0,
        quarantine: Quarantine | None = None,
        start_within: float = 120.0,
    ) -> None:
        super().__init__(
            Roster(
                checked(slots, minimum),
                quarantine=quarantine or Quarantine(),
                first_member=first_member,
                grace=grace,
                start_within=start_within,
            ),
            minimum=minimum,
            grace=grace,
            join_within=join_within,
            attempt=attempt,
            generation=generation,
            start_within=start_within,
        )
        self._fingerprint: tuple[str, str] | None = None

    @property
    def slots(self) -> tuple[str, ...]:
        """The wanted slots."""
        return self._roster.wanted

    def unusable(self, now: float) -> tuple[str, ...]:
        """Return the wanted slots without a worker that get none: refused, or quarantined."""
        return self._roster.unusable(now)

    @property
    def over(self) -> bool:
        """Whether nobody trains any more: all have finished, or the job has failed."""
        return self.failed or (self._finishing and not self._force.circle)

    def start(self, now: float) -> list[Command]:
        """Start a worker on every wanted slot."""
        self._began = now
        return self._advance(now)

    def want(self, slots: Sequence[str], now: float) -> list[Command]:
        """Take the new wanted slots, all of them; naming a refused slot gives it another try.

        Raises:
            ValueError: they are fewer than `minimum`, or one is named twice.
        """
        self._roster.wanted = checked(slots, self._minimum)
        self._roster.refused -= set(slots)
        for worker in self._roster:
            outside = worker.member not in self._force.circle and not worker.finished
            if outside and not worker.departing and not self._roster.is_wanted(worker.member):
                self._end(worker.member, "its slot is no longer wanted", now, politely=True)
        return self._advance(now)

    def hello(self, member: int, joiner: Joiner, now: float) -> list[Command]:
        """A worker is up and waits at its first boundary."""
        worker = self._roster.live(member)
        if worker is not None and worker.joiner is None and not self._finishing:
            worker.joiner, worker.due = joiner, None
            self._compare(member, worker.slot, joiner, now)
        return self._advance(now)

    def prepared(
        self, member: int, generation: int, step: int, complete: bool, now: float
    ) -> list[Command]:
        """An answer of a follower: to a proposal, or of the generation that is in force there."""
        if self._roster.live(member) is not None and self._force.spoils(member, complete):
            self._count_failed_update(member, now)
        proposal = self.proposal
        if self._roster.live(member) is None:
            pass
        elif proposal is not None and generation == proposal.number:
            if member in proposal.told:
                proposal.answers.setdefault(member, Answer(step, complete))
        elif generation == self.generation and member in self._force.leavers:
            self._lost(member, left=True)
            self._roster.depart(member, now)
        elif self._force.acknowledged(member, generation, complete):
            self._break(f"the state of member {member} is incomplete")
        return self._advance(now)

    def busy(self, member: int, now: float) -> list[Command]:
        """A member comes forward where there is no boundary: it has all of `grace` again (rule 13).

        It holds a change up as long as it goes on saying so.
        """
        worker, until = self._roster.live(member), now + self._grace
        if worker is not None:
            if self.proposal is not None:
                self.proposal.excused[member] = until
            if member in self._force.unswitched and self._force.switch_by is not None:
                self._force.switch_by = until
            if worker.departing and worker.due is not None:
                worker.due = until
        return self._advance(now)

    def unresponsive(self, member: int, now: float) -> list[Command]:
        """A process does not answer at all: it is ended as failed."""
        if self._roster.live(member) is not None:
            self._end(member, "it does not answer any more", now, failed=True)
        return self._advance(now)

    def exited(self, member: int, now: float, *, failed: bool) -> list[Command]:
        """A process is gone; `failed=False`: it left as told, or came to its end."""
        worker = self._roster.exited(member, now, failed=failed)
        if worker is not None and not worker.finished:
            if not (failed or worker.ended or worker.departing) and member in self.members:
                self._finish(member, now)
            else:
                self._lost(member, left=worker.departing and not failed)
        return self._advance(now)

    def finished(self, member: int, now: float) -> list[Command]:
        """A member has trained to the end.

        The others are at most one step behind: they are left to finish, nothing is started or
        proposed any more. If one of them dies, the unfinished re-form among themselves and train
        that step again; if no complete one is left, they are ended: the finished member has it.
        """
        worker = self._roster.live(member)
        if worker is not None and not worker.finished:
            worker.finished, worker.due = True, None
            self._finish(member, now)
        return self._advance(now)

    def store_lost(self, now: float) -> list[Command]:
        """The rendezvous store died: a new generation meets at a new one."""
        self.store += 1
        if self._force.circle:
            self._break("the rendezvous store was lost")
        return self._advance(now)

    def tick(self, now: float) -> list[Command]:
        """Do what is due."""
        return self._advance(now)

    def next_deadline(self) -> float | None:
        """Return when `tick` is wanted; None: not before the next event."""
        if self.failed:
            return None
        times = list(self._roster.deadlines())
        if self.proposal is not None:
            times += self.proposal.deadlines()
        if self._force.switch_by is not None:
            times.append(self._force.switch_by)
        if self._wish is not None:
            times.append(self._wish + self._join_within)
        if not self.members:
            times.append(self._began + self._start_within)
        return min((t for t in times if t > self._now), default=None)

    def _count_failed_update(self, member: int, now: float) -> None:
        """It counts like a loss: else updates that always fail would be mended for ever."""
        slot = self._roster[member].slot
        self._roster.quarantine.failed(slot, now)
        if len(self._force.circle) > 1 and not self._roster.quarantine.allows(slot, now):
            self._end(member, "its optimizer.step has failed again and again", now)

    def _compare(self, member: int, slot: str, joiner: Joiner, now: float) -> None:
        """Rule 16: a worker that is unlike the first one does not join."""
        if self._fingerprint is None:
            self._fingerprint = (joiner.fingerprint, slot)
        first, where = self._fingerprint
        if joiner.fingerprint == first:
            return
        reason = f"{slot} is unlike {where}: another script, model, data set, seed or torch version"
        if not self._formed:
            self._fail(reason, now)
        else:
            self._roster.refused.add(slot)
            self._end(member, reason, now)
