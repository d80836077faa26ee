"""The supervisor's side of the membership: it alone decides which generation is in force."""

from __future__ import annotations

from collections.abc import Sequence

from staves.membership._follower import SLACK
from staves.membership._force import Force
from staves.membership._proposal import Proposal
from staves.membership._quarantine import Quarantine
from staves.membership._roster import Roster
from staves.membership._selection import Answer, keep, receivers, winner
from staves.membership._types import Command, Commit, Fail, Joiner, Propose, Restart, Withdraw


class Coordinator:
    """Events in, commands out; `now` is in seconds of any clock that does not go back.

    Commands are to be carried out in their order. Messages to a worker are a reliable ordered
    stream for as long as it lives; when the stream ends, the worker is to be ended and its exit
    told. Every event also does what is due by its time.

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
        self.attempt = attempt
        self.generation = self._number = generation
        self.store = 0
        self.proposal: Proposal | None = None
        self.failed = False
        self._minimum, self._grace, self._join_within = minimum, grace, join_within
        self._start_within = start_within
        self._roster = Roster(
            self._checked(slots),
            quarantine=quarantine or Quarantine(),
            first_member=first_member,
            grace=grace,
            start_within=start_within,
        )
        self._force = Force()
        self._broken = ""
        self._finishing = False
        self._fingerprint: tuple[str, str] | None = None
        self._formed = False
        self._began = self._now = 0.0
        self._wish: float | None = None
        self._out: list[Command] = []

    @property
    def members(self) -> tuple[int, ...]:
        """The members of the generation in force, in rank order; none before the first."""
        return self._force.members

    @property
    def slots(self) -> tuple[str, ...]:
        """The wanted slots."""
        return self._roster.wanted

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
        self._roster.wanted = self._checked(slots)
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
        proposal = self.proposal
        if self._roster.live(member) is None:
            pass
        elif proposal is not None and generation == proposal.number:
            if member in proposal.told:
                proposal.answers.setdefault(member, Answer(step, complete))
        elif self._force.acknowledged(member, generation, complete):
            self._break(f"the state of member {member} is incomplete")
        if not self._force.unswitched:
            for leaver in self._force.release():
                self._roster.depart(leaver, now)
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

    def _checked(self, slots: Sequence[str]) -> tuple[str, ...]:
        if len(set(slots)) != len(slots):
            raise ValueError(f"a slot is named twice: {', '.join(slots)}")
        if len(slots) < max(1, self._minimum):
            raise ValueError(f"{len(slots)} slots for a job of at least {max(1, self._minimum)}")
        return tuple(slots)

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

    # What happens to members.

    def _end(
        self, member: int, reason: str, now: float, *, politely: bool = False, failed: bool = False
    ) -> None:
        self._out += self._roster.end(member, reason, now, politely=politely, failed=failed)
        self._lost(member, left=False, told=politely)

    def _lost(self, member: int, *, left: bool, told: bool = False) -> None:
        """A member is gone or ended: the generation in force, or the proposal, lacks it."""
        switched = not self._force.unswitched
        if member in self._force.members and member in self._force.circle:
            self._break(f"member {member} was lost")
        elif member in self._force.leavers and not left and not switched:
            self._break(f"member {member} was lost before it left")
        self._force.drop(member)
        proposal = self.proposal
        if proposal is not None and member in proposal.told:
            proposal.drop(member)
            if not proposal.broken and proposal.asked and not told:
                self._withdraw()

    def _break(self, reason: str) -> None:
        self._broken = reason

    def _finish(self, member: int, now: float) -> None:
        self._finishing = True
        if self.proposal is not None and not self.proposal.broken:
            self._withdraw()
        stranded = set(self._force.newcomers) if member in self._force.unswitched else set()
        self._force.drop(member)
        if self.proposal is not None:
            self.proposal.drop(member)
        for worker in self._roster:
            if worker.member in stranded or not (
                worker.finished or worker.departing or worker.member in self._force.circle
            ):
                self._force.drop(worker.member)
                self._end(worker.member, "the job has finished", now, politely=True)

    def _fail(self, reason: str, now: float) -> None:
        self.failed = True
        self.proposal = None
        for worker in self._roster:
            self._out += self._roster.end(worker.member, reason, now)
        self._out.append(Fail(reason))

    def _restart(self, now: float) -> None:
        """Rule 6: from the checkpoint; attempt, samples and lineage are rolled back together."""
        self.attempt += 1
        self._force, self.proposal = Force(), None
        reason = f"no complete state is left: {self._broken}"
        self._broken, self._wish, self._began = "", None, now
        self._out.append(Restart(self.attempt, reason))
        for worker in self._roster:
            self._out += self._roster.end(worker.member, reason, now)
        self._out += self._roster.fill(now)

    # What is to be done next.

    def _advance(self, now: float) -> list[Command]:
        self._now = now
        self._expire(now)
        while not self.failed and self._turn(now):
            pass
        commands, self._out = self._out, []
        return commands

    def _expire(self, now: float) -> None:
        if self.failed:
            return
        self._out += self._roster.remind(now)
        if self._force.switch_by is not None and now >= self._force.switch_by:
            self._force.switch_by = None
            self._break(f"members did not come to the switch within {self._grace:g} s")
        if self.proposal is not None:
            for member in self.proposal.silent(now):
                self._end(member, "it did not answer in time", now, failed=True)

    def _turn(self, now: float) -> bool:
        """Take one decision; whether another may follow at once."""
        if not self._finishing:
            self._out += self._roster.fill(now)
            if self._too_few(now):
                return False
        if self._broken:
            return self._reform(now)
        if not self.members:
            return self._first(now)
        if self.proposal is not None:
            return self._change(self.proposal, now)
        return self._consider(now)

    def _too_few(self, now: float) -> bool:
        alive = {w.slot for w in self._roster if w.member in self._force.circle}
        alive |= {self._roster[m].slot for m in self._roster.ready()}
        if len(alive | set(self._roster.pending(now))) >= self._minimum:
            return False
        shortage = self._roster.shortage(now)
        self._fail(f"fewer than {self._minimum} members are left ({shortage})", now)
        return True

    def _first(self, now: float) -> bool:
        ready = self._roster.ready()
        late = now >= self._began + self._start_within
        if self._finishing or len(ready) < self._minimum:
            return False
        if self._roster.pending(now) and not late:
            return False
        self._number += 1
        self._commit(self._number, ready, None, ready[1:], step=0, switch=None, now=now)
        return True

    def _joiners(self) -> list[int]:
        return [m for m in self._roster.ready() if m not in self._force.circle]

    def _kept(self, answers: dict[int, Answer], joiners: Sequence[int]) -> tuple[int, ...]:
        circle = self._force.circle
        wanted = {m for m in circle if self._roster.is_wanted(m)}
        known = {m: answers.get(m, Answer(0, True)) for m in circle}
        return keep(circle, wanted, known, joiners=len(joiners), minimum=self._minimum)

    def _consider(self, now: float) -> bool:
        """Whether a planned change is due, and if so, propose it."""
        if self._finishing or not self._force.settled:
            return False
        joiners = self._joiners()
        if (*self._kept({}, joiners), *joiners) == self.members:
            self._wish = None
            return False
        if self._wish is None:
            self._wish = now
        if self._roster.pending(now) and now < self._wish + self._join_within:
            return False
        self._number += 1
        self._wish = None
        self.proposal = Proposal(self._number, broken=False)
        self._invite(self.proposal, joiners, now)
        return True

    def _invite(self, proposal: Proposal, joiners: Sequence[int], now: float) -> None:
        new = [m for m in joiners if m not in proposal.joiners]
        proposal.joiners.update(dict.fromkeys(new, now + self._join_within))
        if new:
            self._out.append(Propose(tuple(new), proposal.number, broken=False))

    def _change(self, proposal: Proposal, now: float) -> bool:
        """A planned change: first the joiners, then those in force, then the commit (rule 4)."""
        if not proposal.joiners_answered:
            return False
        joiners = [m for m in self._joiners() if m in proposal.answers]
        kept = self._kept(proposal.answers, joiners)
        if (*kept, *joiners) == self.members:
            self._withdraw()
            return True
        if not proposal.asked:
            proposal.asked, proposal.deadline = set(self.members), now + self._grace
            self._out.append(Propose(self.members, proposal.number, broken=False))
            return False
        if not proposal.all_answered:
            return False
        answers = {m: proposal.answers[m] for m in self.members}
        if not all(a.complete for a in answers.values()):
            self._break("the state of a member is incomplete")
            return True
        switch = max(a.step for a in answers.values()) + SLACK
        self._commit(
            proposal.number, [*kept, *joiners], min(kept), joiners, switch, switch=switch, now=now
        )
        return True

    def _reform(self, now: float) -> bool:
        """A broken generation: who is left answers, and the best state wins (rules 1 and 2)."""
        force = self._force
        if self.proposal is None or not self.proposal.broken:
            self._withdraw()
            if not force.circle:
                return self._all_lost(now)
            self._number += 1
            self.proposal = Proposal(self._number, True, {}, set(force.circle), now + self._grace)
            self._out.append(Propose(tuple(force.circle), self._number, broken=True))
        proposal = self.proposal
        if not self._finishing:
            self._invite(proposal, self._joiners(), now)
        if not proposal.asked:
            return self._all_lost(now)
        if not proposal.all_answered:
            return False
        joiners = [m for m in self._joiners() if m in proposal.answers and not self._finishing]
        kept = self._kept(proposal.answers, joiners)
        source = winner(proposal.answers, kept)
        if source is None:
            return self._all_lost(now)
        if len(kept) + len(joiners) < self._minimum and not self._finishing:
            return False
        step = proposal.answers[source].step
        takers = [*receivers(proposal.answers, kept, source), *joiners]
        self._commit(proposal.number, [*kept, *joiners], source, takers, step, switch=None, now=now)
        return True

    def _all_lost(self, now: float) -> bool:
        if not self._finishing:
            self._restart(now)
            return True
        self._broken, self.proposal = "", None
        for member in list(self._force.circle):
            self._force.drop(member)
            self._out += self._roster.end(member, "the job has finished without it", now)
        return False

    def _withdraw(self) -> None:
        if self.proposal is not None and (told := self.proposal.told):
            self._out.append(Withdraw(told, self.proposal.number))
        self.proposal = None

    def _commit(
        self,
        number: int,
        members: Sequence[int],
        source: int | None,
        takers: Sequence[int],
        step: int,
        *,
        switch: int | None,
        now: float,
    ) -> None:
        leavers = [m for m in self._force.circle if m not in members]
        if self.proposal is not None:
            late = [m for m in self.proposal.joiners if m not in members]
            if late:
                self._out.append(Withdraw(tuple(late), number))
        self._out.append(
            Commit(
                to=(*members, *leavers),
                attempt=self.attempt,
                generation=number,
                members=tuple(members),
                about=tuple(self._roster.about(m) for m in members),
                source=source,
                receivers=tuple(takers),
                step=step,
                switch=switch,
                store=self.store,
            )
        )
        newcomers = set(members) - set(self._force.circle)
        old = self.generation
        self.generation, self.proposal, self._broken, self._wish = number, None, "", None
        self._formed = True
        for member in members:
            self._roster.keep(member)
        for member in leavers:
            self._roster.depart(member, None if switch is not None else now)
        self._force = Force(
            generation=number,
            before=old,
            members=tuple(members),
            leavers=set(leavers) if switch is not None else set(),
            newcomers=newcomers,
            incomplete=set(takers),
            switch_by=None if switch is None else now + self._grace,
        )
