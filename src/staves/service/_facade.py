"""What the API asks of the controller: one abstract class, plain documents in and out.

A job's document holds: id, name, state, owner, attempt, devices (names granted now), reason,
submitted, started, finished (Unix seconds or None) and progress (as `engines._base.Status`). That
of one job also holds spans (as `Status`), and story: rows of time, event, before, after
(states) and text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from staves.errors import InputError

Document = dict[str, Any]
"""What JSON can say; times are Unix seconds, sizes bytes."""

Action = Literal["pause", "resume", "stop", "scale"]

Role = Literal["viewer", "user", "admin"]
"""viewer: reads what its user may see. user: also submits, and steers the user's own jobs.
admin: sees and steers everything, nodes and the service as well."""

ENDED = frozenset({"finished", "failed", "cancelled"})
"""The states that a job does not leave."""


class UnknownName(InputError):
    """There is no such job, node, log or snapshot, or none that the caller may see."""


class Refused(InputError):
    """What is asked for is not possible in the state that things are in."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a token stands for.

    Args:
        user: whose jobs it submits and sees.
        role: see `Role`.
    """

    user: str
    role: Role

    @property
    def owner(self) -> str | None:
        """Whose jobs it sees; None for all."""
        return None if self.role == "admin" else self.user


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of one metric.

    Args:
        name: as Prometheus wants it: `staves_`, the thing, its unit; `_total` for counters.
        value: any float.
        kind: gauge, or counter for what never falls.
        help: one line; that of a metric's first sample counts.
        labels: by name.
    """

    name: str
    value: float
    kind: Literal["gauge", "counter"] = "gauge"
    help: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


class Service(ABC):
    """The controller as the API sees it. Its methods are called from several threads at once.

    They raise `UnknownName`, `Refused`, `InputError` for bad input, and `StavesError` for what has
    failed. An `owner` that is not None narrows what is seen to that user's jobs. Methods that take
    a `job` take its id.
    """

    @abstractmethod
    def start(self) -> None:
        """Begin to schedule, in threads of its own; take over what ran before."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything: jobs and their supervisors go on, for the next controller."""

    @abstractmethod
    def shutdown(self) -> None:
        """End all jobs, saved first and queued again; return when none is left. Then `close`."""

    @abstractmethod
    def caller(self, token: str) -> Caller | None:
        """Return who a token stands for; None where it is not known.

        Only SHA-256 hashes of tokens are kept and compared: how long a comparison takes tells
        nothing about a token.
        """

    @abstractmethod
    def add_token(self, user: str, role: Role) -> str:
        """Make a token, random and long, and return it: it cannot be had again."""

    @abstractmethod
    def check(self, document: Document) -> None:
        """Refuse what `submit` would refuse, and queue nothing."""

    @abstractmethod
    def submit(self, document: Document, snapshot: str, *, owner: str, key: str | None) -> Document:
        """Queue a job and return its document. The same key, not None, gives the same job.

        Args:
            document: of the job file.
            snapshot: the hash of its working directory.
            owner: who submits it.
            key: any text; it is the owner's alone.
        """

    @abstractmethod
    def jobs(self, *, everything: bool, owner: str | None) -> list[Document]:
        """Return jobs in order of submission; those that have ended only with `everything`."""

    @abstractmethod
    def job(self, name: str, *, owner: str | None) -> Document:
        """Return one job by its id, or by its name: the only one of that name not ended, or ever.

        Raises:
            UnknownName: there is none.
            InputError: several have that name.
        """

    @abstractmethod
    def act(self, job: str, action: Action, arguments: Document, *, user: str) -> Document:
        """Steer a job and return its document; `scale` has the argument devices, a number.

        Repeating what has been done already changes nothing, and is no error.
        """

    @abstractmethod
    def explain(self, job: str) -> Document:
        """Return why it has what it has: text, chosen and alternatives, as `scheduling.Reason`.

        Of an option, counts are by the names of device types, seconds None for no known end, and
        log_std the standard deviation of ln(rate), None where nothing tells it.
        """

    @abstractmethod
    def decisions(self) -> list[Document]:
        """Return the last decisions, newest first: time, policy, seconds, value, bound and jobs.

        Each entry of jobs holds id, owner, name, devices and text.
        """

    @abstractmethod
    def history(self, *, owner: str | None) -> list[Document]:
        """Return what jobs were measured at: job (an id), device_type, devices, nodes, throughput.

        Throughput is in samples a second. These are the columns that `staves estimate` reads.
        """

    @abstractmethod
    def queue(self) -> list[Document]:
        """Return the jobs that wait, the next one first: id, name, owner, position, waits, ahead.

        waits is why, in words; ahead are the ids of those before it.
        """

    @abstractmethod
    def nodes(self) -> list[Document]:
        """Return the nodes: name, state (up, drained, lost) and devices.

        Each of devices holds name, type, emulated and job (an id, or None).
        """

    @abstractmethod
    def drain(self, node: str, on: bool) -> Document:
        """Take a node out of use, jobs moved away first, or back into use; return its document."""

    @abstractmethod
    def logs(self, job: str, attempt: int | None) -> dict[str, Path]:
        """Return the log files of an attempt by name, the newest attempt for None."""

    @abstractmethod
    def has_snapshot(self, snapshot: str) -> bool:
        """Say whether a snapshot is here, whole."""

    @abstractmethod
    def put_snapshot(self, snapshot: str, folder: Path) -> None:
        """Keep what `folder` holds (it may be moved away) as the snapshot of that hash.

        Raises:
            InputError: its content has another hash.
        """

    @abstractmethod
    def health(self) -> Document:
        """Return how it stands: ok (a truth value) and more, such as what is wrong."""

    @abstractmethod
    def metrics(self) -> list[Sample]:
        """Return samples of queue, jobs, devices, decisions and store, as they stand."""
