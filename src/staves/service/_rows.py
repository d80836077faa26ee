"""What the store gives back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from staves.service._spec import JobSpec
from staves.service._states import Record, State

Role = Literal["viewer", "user", "admin"]
"""viewer: sees. user: also submits, and steers its own jobs. admin: everything."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job, as it is stored. Times are Unix seconds.

    Args:
        record: its state.
        spec: what it asks for.
        snapshot: the hash of its working directory.
        owner: the user who submitted it.
        submitted: when it came.
        started: when it first had devices.
        finished: when it came to a final state.
        progress: as the engine's status last told it.
        knowledge: what it has learned of its devices; None where it has learned nothing.
        summary: the figures of its end; None before.
    """

    record: Record
    spec: JobSpec
    snapshot: str
    owner: str
    submitted: float
    started: float | None = None
    finished: float | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)
    knowledge: Mapping[str, Any] | None = None
    summary: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.record.id

    @property
    def tenant(self) -> str:
        """Whose quota it counts against: as its file says, or else its owner's."""
        return self.spec.tenant or self.owner


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One event of a job's life: at `time` (Unix seconds), from state `before` to `after`."""

    time: float
    event: str
    before: State
    after: State
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of training on the same devices.

    Args:
        job: the id of its job.
        attempt: of the job.
        number: of the stretch within the attempt, from 0.
        since: Unix seconds.
        until: Unix seconds; None while it lasts.
        devices: their names, in the order of ranks.
        figures: the rest of what the engine's status tells of it.
    """

    job: str
    attempt: int
    number: int
    since: float
    until: float | None
    devices: tuple[str, ...]
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Round:
    """How fast a job was while its devices and its batch were the same.

    Args:
        attempt: of the job.
        number: of its stretch within the attempt.
        devices: how many of each type.
        nodes: on how many nodes they stood.
        batch: samples of a step; of an adaptive batch, those of the stretch's last steps.
        throughput: samples a second at that batch, above zero: no goodput.
    """

    attempt: int
    number: int
    devices: Mapping[str, int]
    nodes: int
    batch: int
    throughput: float


@dataclass(frozen=True, slots=True)
class MeasuredJob:
    """A job that has been measured.

    Args:
        id: its id.
        owner: the user who submitted it.
        knowledge: as of `Job`.
        rounds: oldest first, one at least.
    """

    id: str
    owner: str
    knowledge: Mapping[str, Any] | None
    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """One decision of the scheduler: its number, when (Unix seconds), and what."""

    id: int
    time: float
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Token:
    """Who a token stands for. The token itself is not stored."""

    id: int
    user: str
    role: Role
    created: float


def storable(value: Any) -> Any:
    """Return a JSON document without nan and infinities, which JSON does not know: they are null.

    A loss that has diverged is such a number.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): storable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable(inner) for inner in value]
    return value
