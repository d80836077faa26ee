"""The service: jobs that are submitted, kept, scheduled and watched.

A job file (`read_job`) becomes a `JobSpec`; its working directory becomes a `Snapshot`; the `Store`
keeps both and the job's `Record`, which only the state machine (`advance`) changes. The controller
turns by `events_of` and `orders`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from staves.service._job_file import JobFile, job_schema, read_job
from staves.service._machine import advance, events_of, orders
from staves.service._rows import Job, Role, Span, StoredDecision, StoryLine, Token
from staves.service._snapshot import Snapshot, materialise, materialise_job, pack, pack_job
from staves.service._spec import HIDDEN, JobSpec
from staves.service._states import (
    ACTIVE,
    FINAL,
    STATES,
    Ended,
    Event,
    Formed,
    Goal,
    Grant,
    Hello,
    IllegalEvent,
    Lost,
    Measured,
    NotStarted,
    Order,
    Pause,
    Preempt,
    Record,
    ResizeOrder,
    Resume,
    Shutdown,
    StartOrder,
    State,
    Stop,
    StopOrder,
)

if TYPE_CHECKING:
    from staves.service._store import Store

__all__ = [
    "ACTIVE",
    "FINAL",
    "HIDDEN",
    "STATES",
    "Ended",
    "Event",
    "Formed",
    "Goal",
    "Grant",
    "Hello",
    "IllegalEvent",
    "Job",
    "JobFile",
    "JobSpec",
    "Lost",
    "Measured",
    "NotStarted",
    "Order",
    "Pause",
    "Preempt",
    "Record",
    "ResizeOrder",
    "Resume",
    "Role",
    "Shutdown",
    "Snapshot",
    "Span",
    "StartOrder",
    "State",
    "Stop",
    "StopOrder",
    "Store",
    "StoredDecision",
    "StoryLine",
    "Token",
    "advance",
    "events_of",
    "job_schema",
    "materialise",
    "materialise_job",
    "orders",
    "pack",
    "pack_job",
    "read_job",
]


def __getattr__(name: str) -> Any:
    if name == "Store":  # it loads the database: whoever only reads a job file waits for none
        from staves.service._store import Store

        return Store
    raise AttributeError(f"module 'staves.service' has no attribute {name!r}")
