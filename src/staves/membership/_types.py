"""What the machines say: commands of the coordinator, answers of the followers.

A *member* is one worker process, by a number that is never used again within a job; its *rank* is
its place in a generation's `members`. A *slot* is a device that a member runs on, by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Joiner:
    """What a worker says of itself before it may join (rule 16).

    `fingerprint` is a digest of what must be alike on all members: parameter names, shapes, dtypes,
    bucket layout, data set length, seed, torch version, script. `about` is passed on to the other
    members as it is (its device, its cap).
    """

    fingerprint: str
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """Start a worker as `member` on `slot`."""

    member: int
    slot: str


@dataclass(frozen=True, slots=True)
class End:
    """End a worker: `politely` where it is idle or leaves by itself, else at once."""

    member: int
    reason: str
    politely: bool = False


@dataclass(frozen=True, slots=True)
class Propose:
    """Tell `to` of the proposed generation.

    `broken`: the generation in force has lost a member; the step under way is void (rule 1), and an
    answer is due at the next boundary, which then waits. Otherwise members go on with the
    generation in force (rule 4).
    """

    to: tuple[int, ...]
    generation: int
    broken: bool


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Tell `to` that a proposed generation will not come."""

    to: tuple[int, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Generation `generation` is in force; tell `to` (its members, and those that leave).

    To be kept on disk before it is told. `members` in rank order. `switch` is the step at whose
    boundary members of the generation before change over (None: at once, at the boundary where they
    wait). `source` is the member whose state wins (rule 2), None for the first generation of an
    attempt: there the member of rank 0 has it, fresh or from the checkpoint. `receivers` take the
    full state from the source. `store` counts the rendezvous stores of the job: a new one has a new
    address.
    """

    to: tuple[int, ...]
    attempt: int
    generation: int
    members: tuple[int, ...]
    about: tuple[dict[str, Any], ...]
    source: int | None
    receivers: tuple[int, ...]
    step: int
    switch: int | None
    store: int


@dataclass(frozen=True, slots=True)
class Restart:
    """No complete member is left: a new attempt begins, from the checkpoint (rule 6)."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The job cannot go on."""

    reason: str


Command = Start | End | Propose | Withdraw | Commit | Restart | Fail

Boundary = Literal["go", "wait", "switch", "leave"]
"""What a follower does at a step boundary."""


@dataclass(frozen=True, slots=True)
class Abandon:
    """A follower's answer to a notice: fail everything of this generation that is under way."""

    generation: int
