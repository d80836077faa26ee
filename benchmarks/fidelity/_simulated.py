"""The same trace on simulated time: through the controller, or by the cluster's own orders."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from staves.engines._base import Launch, Status
from staves.hardware import Allocation, Cluster
from staves.scheduling import Policy
from staves.service import Arrival, JobSpec, Rehearsal, rehearse
from staves.simulation import Overheads, SimulatedEngine, TrainingTruth

_GRACE = 60.0  # seconds
_LOOK = 0.05  # seconds


def free(
    policy: Policy,
    cluster: Cluster,
    specs: Sequence[JobSpec],
    arrivals: Sequence[float],
    truths: Sequence[TrainingTruth],
    overheads: Overheads,
) -> Rehearsal:
    """Let the service's controller decide everything anew."""
    coming = [
        Arrival(time, spec, truth)
        for time, spec, truth in zip(arrivals, specs, truths, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        return rehearse(policy, cluster, coming, Path(folder), overheads=overheads)


def guided(
    cluster: Cluster,
    orders: Sequence[Mapping[str, Any]],
    truths: Mapping[str, TrainingTruth],
    overheads: Overheads,
) -> dict[str, float]:
    """Give the simulated engine the orders that the cluster got, when it got them.

    Returns:
        When each job ended, by id, in seconds of the orders' clock. One that finished there while
        it was to be saved, and was saved here a few steps short of that, ended here then.
    """
    now = 0.0
    engine = SimulatedEngine(cluster, truths, overheads, lambda: now)
    launched: set[tuple[str, int]] = set()
    for order in orders:
        now = max(now, order["time"])
        job, attempt = order["job"], order["attempt"]
        if order["kind"] != "launch" and (job, attempt) not in launched:
            continue  # the job has finished earlier here than there
        if order["kind"] == "stop":
            engine.stop(job, attempt, save=order["save"], grace=_GRACE)
            continue
        devices = Allocation.named(cluster, order["devices"]).devices
        if order["kind"] == "resize":
            engine.resize(job, attempt, devices, order["request"])
            continue
        while attempt > 1 and engine.status(job, attempt - 1).phase not in ("absent", "ended"):
            now += _LOOK  # it takes a moment longer here
        if not any(_finished(engine.status(job, before)) for before in range(1, attempt)):
            engine.launch(Launch(job, attempt, "", devices, Path(), {}))
            launched.add((job, attempt))
    now = math.inf
    ends = {}
    for order in orders:
        status = engine.status(order["job"], order["attempt"])
        if status.ended is not None and status.spans:
            ends[order["job"]] = float(status.spans[-1]["until"])
    return ends


def _finished(status: Status) -> bool:
    return status.ended is not None and status.ended.end == "finished"
