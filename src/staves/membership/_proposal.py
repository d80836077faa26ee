"""The one proposal that may be outstanding (rule 5)."""

from __future__ import annotations

from dataclasses import dataclass, field

from staves.membership._selection import Answer


@dataclass(slots=True)
class Proposal:
    """A proposed generation, from its first notice until its commit or withdrawal.

    `joiners` have until their time to answer; `asked` (those of the generation in force; none in
    the first phase of a planned change) until `deadline`, or as long as they are excused.
    """

    number: int
    broken: bool
    joiners: dict[int, float] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    deadline: float | None = None
    excused: dict[int, float] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)

    @property
    def told(self) -> tuple[int, ...]:
        """All that got a notice of it."""
        return tuple(sorted(self.asked | self.joiners.keys()))

    def silent(self, now: float) -> list[int]:
        """Return those whose time to answer is over."""
        late = [m for m, until in self.joiners.items() if now >= until]
        late += [m for m in sorted(self.asked) if (by := self._due(m)) is not None and now >= by]
        return [m for m in late if m not in self.answers]

    def drop(self, member: int) -> None:
        """Go on without this member."""
        self.joiners.pop(member, None)
        self.asked.discard(member)
        self.answers.pop(member, None)

    @property
    def joiners_answered(self) -> bool:
        """Whether every joiner is prepared."""
        return self.joiners.keys() <= self.answers.keys()

    @property
    def all_answered(self) -> bool:
        """Whether every member of the generation in force has answered."""
        return self.asked <= self.answers.keys()

    def deadlines(self) -> list[float]:
        """Return the times at which somebody becomes silent."""
        found = [until for m, until in self.joiners.items() if m not in self.answers]
        due = (self._due(m) for m in self.asked if m not in self.answers)
        return found + [by for by in due if by is not None]

    def _due(self, member: int) -> float | None:
        return None if self.deadline is None else max(self.deadline, self.excused.get(member, 0.0))
