"""The generation in force, and how far its members have got with it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Force:
    """A committed generation.

    `circle`: who must be asked when it breaks, in rank order: its members that live and have not
    finished, and, until all of them have switched, the leavers. `unswitched` members have not
    acknowledged the switch, `incomplete` ones not their state; `spoiled` ones had a state, and an
    update that failed has cost them it (rule 7).
    """

    generation: int = 0
    before: int = 0
    members: tuple[int, ...] = ()
    leavers: set[int] = field(default_factory=set)
    newcomers: set[int] = field(default_factory=set)
    incomplete: set[int] = field(default_factory=set)
    spoiled: set[int] = field(default_factory=set)
    switch_by: float | None = None
    circle: list[int] = field(default_factory=list)
    unswitched: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.circle = [*self.members, *sorted(self.leavers)]
        self.unswitched = set(self.members)

    @property
    def settled(self) -> bool:
        """Whether all have switched and are complete: only then the next change is planned."""
        return not self.unswitched and not self.incomplete

    def drop(self, member: int) -> None:
        """This one is gone, or has finished."""
        if member in self.circle:
            self.circle.remove(member)
        self.leavers.discard(member)
        self.unswitched.discard(member)
        self.incomplete.discard(member)

    def acknowledged(self, member: int, generation: int, complete: bool) -> bool:
        """Note how far a member is; whether it has lost a state that it was known to have."""
        if member not in self.circle:
            return False
        if generation == self.generation:
            self.unswitched.discard(member)
            if complete:
                self.incomplete.discard(member)
            return not complete and member not in self.incomplete
        return generation == self.before and not complete and member in self.unswitched

    def spoils(self, member: int, complete: bool) -> bool:
        """Note whether a member still has the state that it had; whether it has just lost it."""
        had = member in self.circle and member not in self.incomplete | self.spoiled
        if had and not complete:
            self.spoiled.add(member)
        return had and not complete

    @property
    def all_spoiled(self) -> bool:
        """Whether an update has failed on everyone that is left."""
        return bool(self.circle) and self.spoiled >= set(self.circle)

    def release(self) -> set[int]:
        """All have switched: return the leavers, which nobody needs any more."""
        leavers, self.leavers = self.leavers, set()
        self.circle = [m for m in self.circle if m not in leavers]
        self.switch_by = None
        return leavers
