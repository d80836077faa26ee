"""The worker's side of the membership: what to do at each step boundary."""

from __future__ import annotations

from math import inf

from staves.membership._types import Abandon, Boundary, Commit

SLACK = 2
"""Steps that a member goes on after its answer to a planned change before it waits for the commit:
the change costs no pause where the answers come in within two steps."""

ROWS_WITH_STATE = 2 * SLACK + 2
"""Ledger rows of its latest steps that a source hands over with its state, for the receiver to tell
before it acknowledges (rule 19): else a source that dies could take the only rows of steps with it
that its receivers go on from. What it committed before its answer to the proposal has been told. At
most the step it was in and 2 * SLACK + 1 more come after it: an answer that comes late is at most
SLACK + 1 beyond its own, since it waits there, and the switch is SLACK beyond the latest."""


class Follower:
    """The membership as one worker knows it.

    The trainer carries messages: notices of the supervisor in, and what `answer` returns out, as
    `prepared`. **Ask `answer` after every call of any other method, from either thread**: a planned
    change is answered at once, in the middle of a step (else a member that waits for the commit and
    one that waits for its gradients would wait for each other); each switch, each complete state
    and each leave is acknowledged in the same way. Calls must be serialised by the caller: one lock
    around the object, `boundary` and `switched` under one hold of it.

    Args:
        member: this worker's number.
    """

    def __init__(self, member: int) -> None:
        self.member = member
        self.generation = 0
        self.step = 0
        self.complete = False
        self._inside = self._left = False
        self._lease = inf
        self._newest = self._refused = 0
        self._planned: tuple[int, int] | None = None
        self._broken = 0
        self._answered = False
        self._commit: Commit | None = None
        self._state_step: int | None = None
        self._answer: tuple[int, int, bool] | None = None

    def proposed(self, generation: int, broken: bool) -> Abandon | None:
        """Take a proposal; for a broken generation, say what is to be abandoned.

        A proposal that is not newer than all that was heard before is ignored.
        """
        if generation <= self._newest:
            return None
        self._newest = generation
        self._planned = self._answer = None
        if not broken:
            boundary = self.step + self._inside
            self._planned = (generation, boundary)
            self._answer = (generation, boundary, self.complete)
            return None
        self._broken, self._answered = generation, False
        self._commit, self._refused = None, generation - 1
        return Abandon(self.generation) if self.generation else None

    def withdrawn(self, generation: int) -> None:
        """Forget a planned change. A broken generation stays broken: only a commit heals it."""
        if self._planned is not None and self._planned[0] == generation:
            self._planned = None
            if self._answer is not None and self._answer[0] == generation:
                self._answer = None
        self._newest = max(self._newest, generation)
        self._refused = max(self._refused, generation)

    def committed(self, commit: Commit) -> None:
        """Take a commit, to be carried out at its step; an old number is ignored (rule 5)."""
        if commit.generation <= max(self.generation, self._refused):
            return
        self._newest = max(self._newest, commit.generation)
        self._commit = commit
        self._planned, self._broken = None, 0
        if self._answer is not None and self._answer[0] == commit.generation:
            self._answer = None
        if commit.source is None and commit.members[0] == self.member:
            self.complete = True

    def lease(self, until: float) -> None:
        """The supervisor's lease lasts until then; never given, it has no end (rule 14)."""
        self._lease = until

    def boundary(self, step: int, now: float) -> Boundary:
        """Say what to do with `step` steps committed; ask again while it says "wait"."""
        self.step, self._inside = step, False
        if self._broken and not self._answered:
            self._answered = True
            self._answer = (self._broken, step, self.complete)
        verdict = self._verdict(step)
        if now >= self._lease:
            return "wait"
        self._inside = verdict == "go"
        if verdict == "leave" and self._commit is not None and not self._left:
            self._left = True
            self._answer = (self._commit.generation, step, self.complete)
        return verdict

    def _verdict(self, step: int) -> Boundary:
        if (commit := self._commit) is not None and (
            commit.switch is None or self.generation == 0 or step >= commit.switch
        ):
            if self.member not in commit.members:
                return "leave"
            if self.complete or self.member in commit.receivers:
                return "switch"
            return "wait"
        if self._broken or self.generation == 0 or not self.complete:
            return "wait"
        if self._planned is not None and step >= self._planned[1] + SLACK:
            return "wait"
        return "go"

    def answer(self) -> tuple[int, int, bool] | None:
        """Return (generation, step, complete), to be sent as `prepared`; each answer once."""
        answer, self._answer = self._answer, None
        return answer

    def switched(self) -> Commit:
        """Take the commit that `boundary` said to carry out: its generation is in force now.

        A receiver has no complete state from here on until `state_received`.

        Raises:
            LookupError: a notice has voided that commit since; ask `boundary` again.
        """
        commit = self._commit
        if commit is None or self.member not in commit.members:
            raise LookupError("there is no commit to carry out: ask for the boundary again")
        self._commit = None
        self.generation = commit.generation
        if self.member in commit.receivers:
            self.complete = False
        self._state_step = None if commit.source is None else commit.step
        self._answer = (self.generation, self.step, self.complete)
        return commit

    def state_received(self) -> None:
        """The full state has come and its hash matched: this member is complete.

        To be called after the rows that came with the state have been told (`ROWS_WITH_STATE`).
        """
        self.complete = True
        if self._state_step is not None:
            self.step = self._state_step
        if not self._broken:
            self._answer = (self.generation, self.step, True)

    def stepped(self, step: int) -> None:
        """An update was applied: `step` steps are committed here."""
        self.step, self._inside = step, False

    def incomplete(self) -> None:
        """An exception inside the update: this state belongs to no step (rule 7).

        The answer that follows tells the supervisor, which proposes a new generation.
        """
        self.complete = self._inside = False
        if self._answer is not None:
            self._answer = (self._answer[0], self._answer[1], False)
        elif self.generation and not self._broken:
            self._answer = (self.generation, self.step, False)
