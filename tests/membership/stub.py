"""A stub worker: the real Follower, and a model of training without torch.

An all-reduce of (generation, step) completes at a member if all members have entered it; a member
that dies may have completed it while others have not, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from staves.membership import Abandon, Commit, Follower, Propose, Withdraw, finished_row

if TYPE_CHECKING:
    from tests.membership.world import World


@dataclass(frozen=True, slots=True)
class State:
    """Parameters and cursor: `digest` is a hash over all that was trained to get here."""

    step: int
    epoch: int
    position: int
    digest: int


class Stub:
    def __init__(self, world: World, member: int, slot: str) -> None:
        self.world, self.member, self.slot = world, member, slot
        self.follower = Follower(member)
        self.state: State | None = world.checkpoint
        self.commit: Commit | None = None
        self.alive, self.ended, self.cut, self.declared = True, False, False, False
        self.mode = "starting"
        self.turn = 0
        self.lease_end: float | None = None
        self.slow = world.random.choice((0.5, 1.0, 1.0, 1.5))
        self.inbox_free = self.outbox_free = 0.0
        self.sent: list[list[Any]] = []
        self.rows: list[dict[str, Any]] = []
        self.hung = False

    # The watcher's thread: messages of the supervisor.

    def receive(self, message: Any) -> None:
        if not self.alive:
            return
        follower = self.follower
        if isinstance(message, Propose):
            abandon = follower.proposed(message.generation, message.broken)
            if abandon is not None:
                self.abandon(abandon)
        elif isinstance(message, Withdraw):
            follower.withdrawn(message.generation)
        elif isinstance(message, Commit):
            follower.committed(message)
            self.world.chaos("committed", self)
        elif isinstance(message, float):
            self.lease_end = message
            follower.lease(message)
        self.send_answer()
        if self.alive and self.mode == "waiting":
            self.boundary()

    def abandon(self, notice: Abandon) -> None:
        assert notice.generation == self.follower.generation
        if self.mode in ("reducing", "receiving", "serving"):
            self.go_to_boundary()
        elif self.mode == "computing":
            self.mode = "void"

    def send_answer(self) -> None:
        answer = self.follower.answer()
        if answer is not None:
            self.world.send(self, ("prepared", *answer))
            self.world.chaos("answered", self)

    # The training thread.

    def later(self, delay: float, mode: str, then: str) -> None:
        """Go on with `then` unless something else happens first."""
        self.mode = mode
        self.turn += 1
        self.world.at(delay, self.resume, self.turn, then)

    def resume(self, turn: int, then: str) -> None:
        if self.alive and turn == self.turn:
            getattr(self, then)()

    def go_to_boundary(self) -> None:
        self.later(self.world.random.uniform(0.0, 0.05), "returning", "boundary")

    def hello(self) -> None:
        self.mode = "waiting"
        self.world.send(self, ("hello", self.world.fingerprint(self)))
        self.world.chaos("hello", self)

    def boundary(self) -> None:
        world, follower, state = self.world, self.follower, self.state
        step = state.step if state is not None else follower.step
        if state is not None and state.epoch >= world.epochs and follower.generation:
            self.mode = "finished"
            assert self.commit is not None
            row = finished_row(self.commit.attempt, self.commit.generation, step)
            world.send(self, ("finished", row))
            world.at(world.random.uniform(0.0, 0.5), world.die, self, False)
            return
        verdict = follower.boundary(step, world.now)
        self.mode = "waiting"
        self.send_answer()
        if not self.alive or verdict == "wait":
            return
        if verdict == "leave":
            self.mode = "leaving"
            if world.random.random() < 0.9:
                world.at(world.random.uniform(0.0, 0.5), world.die, self, False)
        elif verdict == "switch":
            self.switch()
        else:
            world.check_go(self)
            self.later(world.computing_time(self), "computing", "enter")

    def void(self) -> None:
        self.boundary()

    def enter(self) -> None:
        if self.mode == "void":
            self.boundary()
            return
        self.mode = "reducing"
        self.turn += 1
        self.world.enter(self)

    def reduced(self) -> None:
        """The all-reduce is complete here; the update follows, and nothing can void it."""
        self.later(self.world.random.uniform(0.0, 0.1), "updating", "update")
        self.world.chaos("reduced", self)

    def update(self) -> None:
        world, commit = self.world, self.commit
        assert self.state is not None
        assert commit is not None
        if world.faulty() and world.random.random() < world.update_errors and world.others(self):
            self.state = None
            self.follower.incomplete()
        else:
            local_batches = world.local_batches(commit, self.state)
            self.state = world.after(self.state, commit, local_batches)
            world.stepped(self, commit, local_batches)
            self.follower.stepped(self.state.step)
            world.chaos("stepped", self)
        if self.alive:
            self.send_answer()
        if self.alive:
            self.boundary()

    def switch(self) -> None:
        world = self.world
        self.commit = commit = self.follower.switched()
        self.send_answer()
        if not self.alive:
            return
        if self.member in commit.receivers:
            self.state = None
            self.mode = "receiving"
        elif commit.receivers and self.member == world.source(commit):
            self.mode = "serving"
        else:
            self.boundary()
            return
        self.turn += 1
        world.transfer(commit)
        world.chaos("transfer", self)

    def received(self, state: State, rows: list[dict[str, Any]]) -> None:
        self.state, self.rows = state, rows
        for row in rows:
            self.world.send(self, ("row", row))
        self.follower.state_received()
        self.send_answer()
        if self.alive:
            self.go_to_boundary()
