"""What a job's state machine speaks of: states, the record of a job, events and orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from staves.engines._base import End
from staves.service._facade import Refused

State = Literal[
    "queued",
    "probing",
    "running",
    "rescaling",
    "paused",
    "saving",
    "finished",
    "failed",
    "cancelled",
]
"""queued: waits for devices. probing: runs, and its speed is being measured. running: runs.
rescaling: runs, and other devices are on their way to it. saving: was told to end, and has not yet.
paused: waits for `resume`. The other three are final."""

Goal = Literal["queued", "paused", "cancelled"]
"""What a job becomes when it has ended as it was told."""

STATES: tuple[State, ...] = get_args(State)

ACTIVE: frozenset[State] = frozenset({"probing", "running", "rescaling", "saving"})
"""States in which an attempt has devices."""

FINAL: frozenset[State] = frozenset({"finished", "failed", "cancelled"})
"""States that nothing follows."""

LONGEST_STORY = 12
"""States that a record remembers; the store keeps all of them."""


@dataclass(frozen=True, slots=True)
class Record:
    """One job, as far as its state machine is concerned.

    Args:
        id: unique in the store.
        name: of its job file; need not be unique.
        state: see `State`.
        elastic: whether it trains with staves; None until that is known.
        measured: whether its speed has been measured on some devices.
        attempt: the number of the latest attempt; 0 before the first.
        request: the number of the latest resize within that attempt; 0 before the first.
        devices: names of those it has been granted, in the order of ranks.
        goal: what it becomes at its end, in state `saving`.
        save: in state `saving`, whether its state is to be saved.
        failures: attempts that were lost or could not be started, and were made up for. One that
            trained until the cluster took its devices is none.
        retries: how many such attempts are made up for.
        reason: why it is in this state, for people; may be empty.
        status: the exit status of the rank that failed (negative: a signal).
        story: the states up to this one, oldest first; the last LONGEST_STORY of them.
    """

    id: str
    name: str
    state: State = "queued"
    elastic: bool | None = None
    measured: bool = False
    attempt: int = 0
    request: int = 0
    devices: tuple[str, ...] = ()
    goal: Goal | None = None
    save: bool = False
    failures: int = 0
    retries: int = 3
    reason: str = ""
    status: int | None = None
    story: tuple[State, ...] = ("queued",)

    @property
    def active(self) -> bool:
        """Whether an attempt of it has devices."""
        return self.state in ACTIVE

    @property
    def final(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in FINAL

    @property
    def title(self) -> str:
        """How messages name it."""
        return f"job {self.id} ({self.name})"

    def to_document(self) -> dict[str, Any]:
        """Return the record as a JSON document."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Record:
        """Return the record that `to_document` wrote."""
        tuples = {name: tuple(document[name]) for name in ("devices", "story")}
        return cls(**{**document, **tuples})


@dataclass(frozen=True, slots=True)
class Grant:
    """The scheduler gives the job these devices, in the order of ranks."""

    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preempt:
    """The scheduler takes all devices away: the job is saved and queued again."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Somebody wants the job to be saved, and to wait for `Resume`."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Somebody wants the paused job to go on."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Somebody wants the job to end for good."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The service goes down: what runs is ended, and queued again for the next start."""


@dataclass(frozen=True, slots=True)
class Hello:
    """A rank of the job has said that it trains with staves: it is elastic."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The job's speed on its devices is known."""


@dataclass(frozen=True, slots=True)
class Formed:
    """The devices of this resize, or of a later one, are at work."""

    request: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The attempt has ended: the fields of `engines.Ended`, and whether it had trained."""

    end: End
    reason: str = ""
    status: int | None = None
    trained: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The attempt is gone, and nobody knows how far it came."""

    reason: str = "its supervisor died"


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The engine could not start the attempt: nothing of it ran."""

    reason: str


Event = (
    Grant
    | Preempt
    | Pause
    | Resume
    | Stop
    | Shutdown
    | Hello
    | Measured
    | Formed
    | Ended
    | Lost
    | NotStarted
)


@dataclass(frozen=True, slots=True)
class StartOrder:
    """Launch this attempt on these devices."""

    attempt: int
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResizeOrder:
    """Give the running attempt these devices."""

    attempt: int
    devices: tuple[str, ...]
    request: int


@dataclass(frozen=True, slots=True)
class StopOrder:
    """End the attempt, with its state saved or as it stands."""

    attempt: int
    save: bool


Order = StartOrder | ResizeOrder | StopOrder


class IllegalEvent(Refused):
    """The job is in no state for this event; the hint tells how it came there. Nothing changed."""
