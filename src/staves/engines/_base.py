"""The contract of an engine: it places and watches what a scheduler has decided.

It decides nothing itself.
Every call may be repeated: whoever steers an engine may die at any point and call again, with what
it kept. `Engine.status` tells how things stand, not what has happened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from staves.hardware import Cluster, Device

Phase = Literal["absent", "starting", "running", "ended", "lost"]
"""absent: never launched. starting: launched, nothing of it has been heard yet. running: its
supervisor is up. ended: it has said how it ended. lost: its supervisor died without a word."""

End = Literal["finished", "failed", "saved", "stopped", "unplaced"]
"""finished: of itself, well. failed: of itself, or because too few devices were left. saved: as it
was told, with its state in a checkpoint. stopped: as it was told, without one; untold where it
could not do without a device that was lost, or that it did not get. unplaced: it did not get a
device that it could not do without, and nothing of it has run."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt at one job.

    Args:
        job: its id; also the name of its folder.
        attempt: from 1; an attempt runs at most once, however often it is launched.
        command: a shell command line (`/bin/sh -c`).
        per_device: whether the command is started for each device, or once with all of them.
        devices: to begin with, in the order of the ranks.
        workdir: where the command runs.
        environ: its whole environment, but for what the engine adds.
        minimum: the attempt fails when it has fewer devices for good.
        grace: seconds that a rank may take to come to a step boundary.
        checkpoint: the folder of its checkpoints.
        checkpoint_every: seconds between two of them.
    """

    job: str
    attempt: int
    command: str
    devices: tuple[Device, ...]
    workdir: Path
    environ: Mapping[str, str]
    per_device: bool = True
    minimum: int = 1
    grace: float = 30.0
    checkpoint: Path | None = None
    checkpoint_every: float | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended.

    Args:
        end: in one word.
        reason: in words, for people; empty where there is nothing to say.
        status: the exit status of the rank that failed (negative: a signal).
        figures: as of `staves run --json`; empty for what never trained.
    """

    end: End
    reason: str = ""
    status: int | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """How an attempt stands.

    Args:
        phase: see `Phase`.
        elastic: whether a rank of it trains with staves; None until that is known.
        request: the number of the newest resize that it has taken.
        wanted: the devices it was last told to have.
        devices: those of the generation in force, in the order of ranks.
        unusable: those of `wanted` that it has given up for now: workers failed there again and
            again, or are unlike the others.
        pending: why workers have not started that it waits for, in words; empty where none are
            awaited, or they come at once.
        generation: the number of that generation.
        progress: of training, as its rank 0 last told it: step, epoch, samples, total_samples,
            batch, loss, local_batches, step_seconds, predicted_step_seconds, even_step_seconds,
            metrics.
        knowledge: what it has learned of its devices (`training.Knowledge.to_document`).
        spans: for each generation that has trained: devices, since and until (Unix seconds),
            local_batches, step_seconds, predicted_step_seconds, even_step_seconds, pause_seconds.
        ended: how it ended, in phase `ended`.
    """

    phase: Phase
    elastic: bool | None = None
    request: int = 0
    wanted: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    pending: str = ""
    generation: int = 0
    progress: Mapping[str, Any] = field(default_factory=dict)
    knowledge: Mapping[str, Any] | None = None
    spans: tuple[Mapping[str, Any], ...] = ()
    ended: Ended | None = None


class Engine(ABC):
    """Where jobs run: this machine, a Ray or a Slurm cluster, the simulator."""

    name: str

    @abstractmethod
    def cluster(self) -> Cluster:
        """Return the nodes and devices there are now."""

    @abstractmethod
    def launch(self, launch: Launch) -> None:
        """Start an attempt, unless it has been started already; returns at once.

        Raises:
            StavesError: it cannot be started; nothing of it runs.
        """

    @abstractmethod
    def resize(self, job: str, attempt: int, devices: Sequence[Device], request: int) -> None:
        """Give a running attempt these devices from its next possible step boundary on.

        Requests are numbered upward; one that is not above the newest taken does nothing.
        """

    @abstractmethod
    def stop(self, job: str, attempt: int, *, save: bool, grace: float) -> None:
        """End an attempt: with a checkpoint at its next step boundary, or as it stands.

        What has not ended after `grace` seconds is ended by force. May be repeated.
        """

    @abstractmethod
    def status(self, job: str, attempt: int) -> Status:
        """Return how an attempt stands. Cheap: it is asked several times a second."""

    @abstractmethod
    def logs(self, job: str, attempt: int) -> dict[str, Path]:
        """Return the attempt's log files by name: `rank-0`, ..., and the supervisor's own."""
