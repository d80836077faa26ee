"""A job without delays, for one rule at a time: a Coordinator, Followers, and all commands said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from staves.membership import (
    Command,
    Commit,
    Coordinator,
    End,
    Follower,
    Joiner,
    Propose,
    Start,
    Withdraw,
)

C = TypeVar("C", bound=Command)


class Job:
    """`hold` members' answers are kept back until `release`."""

    def __init__(self, slots: Iterable[str], **options: Any) -> None:
        self.now = 0.0
        self.coordinator = Coordinator(slots=list(slots), **options)
        self.said: list[Command] = []
        self.followers: dict[int, Follower] = {}
        self.abandoned: dict[int, int] = {}
        self.held: set[int] = set()
        self.obey(self.coordinator.start(0.0))

    def obey(self, commands: list[Command]) -> list[Command]:
        self.said += commands
        for command in commands:
            if isinstance(command, Start):
                self.followers[command.member] = Follower(command.member)
            if isinstance(command, Propose | Withdraw | Commit):
                for member in command.to:
                    self.tell(member, command)
        self.answers()
        return commands

    def tell(self, member: int, command: Propose | Withdraw | Commit) -> None:
        follower = self.followers[member]
        if isinstance(command, Propose):
            notice = follower.proposed(command.generation, command.broken)
            if notice is not None:
                self.abandoned[member] = notice.generation
        elif isinstance(command, Withdraw):
            follower.withdrawn(command.generation)
        else:
            follower.committed(command)

    def answers(self) -> None:
        for member, follower in list(self.followers.items()):
            if member not in self.held and (answer := follower.answer()) is not None:
                self.obey(self.coordinator.prepared(member, *answer, self.now))

    def release(self, member: int) -> None:
        self.held.discard(member)
        self.answers()

    def do(self, event: Callable[..., list[Command]], *arguments: Any, **options: Any) -> None:
        self.obey(event(*arguments, self.now, **options))

    def hello(self, *members: int, fingerprint: str = "same") -> None:
        for member in members:
            joiner = Joiner(fingerprint, {"member": member})
            self.do(self.coordinator.hello, member, joiner)

    def die(self, member: int, *, failed: bool = True) -> None:
        del self.followers[member]
        self.do(self.coordinator.exited, member, failed=failed)

    def want(self, *slots: str) -> None:
        self.do(self.coordinator.want, slots)

    def wait(self, seconds: float) -> None:
        """Let time pass, from deadline to deadline."""
        end = self.now + seconds
        while (due := self.coordinator.next_deadline()) is not None and due <= end:
            assert due > self.now
            self.now = due
            self.do(self.coordinator.tick)
        self.now = end

    def boundary(self, member: int, step: int) -> str:
        verdict = self.followers[member].boundary(step, self.now)
        self.answers()
        return verdict

    def switch(self, *members: int, received: bool = True) -> None:
        """Carry the pending commit out at these members."""
        for member in members:
            follower = self.followers[member]
            assert self.boundary(member, follower.step) == "switch"
            commit = follower.switched()
            self.answers()
            if received and member in commit.receivers:
                follower.state_received()
                self.answers()

    def formed(self, *, step: int = 0) -> Job:
        """All started workers join, and the first generation is in force at `step`."""
        self.hello(*self.followers)
        self.switch(*self.members)
        self.train(step)
        return self

    def train(self, until: int) -> None:
        """Steps of the first member and of all that are in its generation, together."""
        first = self.followers[self.members[0]]
        together = [f for f in self.followers.values() if f.generation == first.generation]
        while (step := first.step) < until:
            for follower in together:
                assert self.boundary(follower.member, step) == "go"
            for follower in together:
                follower.stepped(step + 1)

    @property
    def members(self) -> tuple[int, ...]:
        return self.coordinator.members

    def all(self, kind: type[C]) -> list[C]:
        return [c for c in self.said if isinstance(c, kind)]

    def last(self, kind: type[C]) -> C:
        return self.all(kind)[-1]

    def ended(self) -> dict[int, str]:
        return {c.member: c.reason for c in self.all(End)}
