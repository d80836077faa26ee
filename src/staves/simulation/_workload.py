"""Workloads: which job comes when, of which application, and what its owner asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from staves.scheduling import JobKind
from staves.simulation._counted import Counted


@dataclass(frozen=True, slots=True)
class Request:
    """One job as it was submitted.

    Args:
        name: unique in its workload.
        time: seconds since the workload's start.
        application: what it runs.
        devices: that it asks for.
        batch: total batch that it asks for, samples; 1 where the workload does not say it.
        steps: work in steps, where the workload says it; else it follows from the profile.
        seconds: how long it ran, or is declared to run, on the devices that it asks for.
        kind: what it can do, where the workload says it; else as the policy takes all jobs.
        minimum, maximum: devices that it may have, where the workload says so.
        types: device types that it may have; None for any.
        share: of one device that it asks for, above 0 and at most 1. The simulator gives whole
            devices.
        tenant: whose it is; empty where the workload does not say it.
        weight: of its delay against that of others.
        preemptible: whether its devices may be taken or changed before it ends.
        deadline: when it should have ended, seconds since the workload's start; inf for no such
            time.
    """

    name: str
    time: float
    application: str
    devices: int
    batch: int = 1
    steps: float | None = None
    seconds: float | None = None
    kind: JobKind | None = None
    minimum: int | None = None
    maximum: int | None = None
    types: tuple[str, ...] | None = None
    share: float = 1.0
    tenant: str = ""
    weight: float = 1.0
    preemptible: bool = True
    deadline: float = math.inf


@dataclass(frozen=True, slots=True)
class Workload:
    """All jobs, in order of time.

    Args:
        name: for reports.
        requests: the jobs.
        counted: what its reader dropped or put right.
        assumed: what the file does not say and its reader takes for granted, one line each.
    """

    name: str
    requests: tuple[Request, ...]
    counted: tuple[Counted, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know before they use it, one line each."""
        return tuple(f"{self.name}: {note}" for note in (*self.counted, *self.assumed))
