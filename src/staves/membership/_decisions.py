"""What the coordinator decides after each event: to start, to propose, to commit, to end."""

from __future__ import annotations

from collections.abc import Sequence

from staves.membership._follower import SLACK
from staves.membership._force import Force
from staves.membership._proposal import Proposal
from staves.membership._roster import Roster
from staves.membership._selection import Answer, keep, receivers, winner
from staves.membership._types import Command, Commit, Fail, Propose, Restart, Withdraw


class Decisions:
    """The state of the coordinator, and one decision at a time (`_turn`) until none is left."""

    def __init__(
        self,
        roster: Roster,
        *,
        minimum: int,
        grace: float,
        join_within: float,
        attempt: int,
        generation: int,
        start_within: float,
    ) -> None:
        self.attempt = attempt
        self.generation = self._number = generation
        self.store = 0
        self.proposal: Proposal | None = None
        self.failed = False
        self._minimum, self._grace, self._join_within = minimum, grace, join_within
        self._start_within = start_within
        self._roster = roster
        self._force = Force()
        self._broken = ""
        self._finishing = False
        self._formed = False
        self._began = self._now = 0.0
        self._wish: float | None = None
        self._out: list[Command] = []

    @property
    def members(self) -> tuple[int, ...]:
        """The members of the generation in force, in rank order; none before the first."""
        return self._force.members

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
        if not self._force.unswitched and not self._broken:
            # In a broken generation a leaver's state may yet be needed.
            for leaver in self._force.release():
                self._roster.depart(leaver, now)
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
        """A planned change: first the joiners, then those in force, then the commit (rule 4).

        All reach the boundary of step S = max(answers) + SLACK, and nobody passes it before the
        commit. An answer is the first boundary s that its member has not passed, given as soon as
        the notice comes, in a step or not. The member passes no boundary from s + SLACK <= S on
        before it has the commit. Since no answer waits for a step, all answers come, then the
        commit, and then no member waits before S: each enters every step below S, so that each of
        these steps completes. (Were the answer given at the next boundary, a member that gets the
        notice late, inside step s + SLACK, would need that step to complete, which the others
        enter only after the commit that waits for its answer.)
        """
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
        if self._force.all_spoiled and not self._finishing:
            # The script's own error, and another attempt would meet it again.
            slots = ", ".join(sorted(self._roster[m].slot for m in self._force.circle))
            self._fail(f"optimizer.step failed on {slots}, and nobody has a whole state", now)
            return False
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
        if self.proposal is not None and (late := self.proposal.joiners.keys() - set(members)):
            self._out.append(Withdraw(tuple(sorted(late)), number))
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
