"""What a run on the cluster says of overheads: fits over all its jobs, nothing of any one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls

from benchmarks.fidelity._trace import TraceJob
from staves.hardware import Allocation, Cluster
from staves.simulation import Overheads, SimulatedTraining, TrainingTruth
from staves.simulation._machine import Machine
from staves.simulation._training import Saved
from staves.steptime import Communication, ring_share

Documents = Sequence[Mapping[str, Any]]

_HEARD = 0.05  # seconds: files are looked at that often
_LEAST_STEPS = 30  # in a stretch that counts


def truths(trace: Sequence[TraceJob], jobs: Documents) -> list[TrainingTruth]:
    """Return what each job is: what its script says, and the wire time that its kind measured.

    Compute durations are the declared ones. Wire times are medians over the jobs of an application,
    as learned by its trainers between two devices or more.
    """
    wire: dict[str, list[float]] = {}
    for job, document in zip(trace, jobs, strict=True):
        known = document["knowledge"] or {}
        if known.get("seconds") and known["world_size"] > 1:
            share = float(ring_share(2) / ring_share(known["world_size"]))
            wire.setdefault(job.application, []).append(share * sum(known["seconds"]))
    every = [seconds for kind in wire.values() for seconds in kind]
    return [
        TrainingTruth(
            job.batch,
            document["progress"]["total_samples"] // job.epochs,
            job.epochs,
            Communication((1.0,), (median(wire.get(job.application) or every or [0.0]),)),
        )
        for job, document in zip(trace, jobs, strict=True)
    ]


def overheads(
    cluster: Cluster, known: Sequence[TrainingTruth], jobs: Documents, orders: Documents
) -> Overheads:
    """Return what starts and changes cost in that run."""
    start, worker = _starts(jobs, orders)
    _, alone = _beside(cluster, known, jobs, several=False)
    step, together = _beside(cluster, known, jobs, several=True)
    spans = [(before, span) for job in jobs for before, span in _changes(job)]
    switches = [
        span["pause_seconds"] - span["step_seconds"]
        for _, span in spans
        if span["pause_seconds"] and span["step_seconds"] and len(span["devices"]) == 1
    ]
    stops = {(o["job"], o["attempt"]): o["time"] for o in orders if o["kind"] == "stop"}
    saves = []
    for job in jobs:
        for span in job["spans"]:
            told = stops.get((job["id"], span["attempt"]))
            if told and span["until"] and span["step_seconds"]:
                # Told in the middle of a step, on average.
                saves.append(span["until"] - told - 0.5 * span["step_seconds"])
    return Overheads(
        start=start,
        worker=worker,
        cores=float(os.cpu_count() or 1),
        hear=_HEARD,
        switch=max(0.0, median(switches or [0.0])),
        step=step,
        epoch=alone,
        shared_epoch=together,
        save=max(0.0, median(saves or [0.0])),
        end=_HEARD,
    )


def _starts(jobs: Documents, orders: Documents) -> tuple[float, float]:
    """Return the seconds of a core for an attempt and for each worker that fit all starts best."""
    formed = {
        (job["id"], attempt): min(s["since"] for s in job["spans"] if s["attempt"] == attempt)
        for job in jobs
        for attempt in {span["attempt"] for span in job["spans"]}
    }

    def error(guess: NDArray[np.float64]) -> float:
        start, worker = (max(0.0, float(value)) for value in guess)
        machine = Machine(float(os.cpu_count() or 1))
        has: dict[tuple[str, int], set[str]] = {}
        started = {}
        for order in orders:
            key = order["job"], order["attempt"]
            if order["kind"] == "launch":
                has[key] = set(order["devices"])
                stages = [(1, start), (len(has[key]), worker)]
                started[key] = machine.start(stages, order["time"])
            elif order["kind"] == "resize":
                new = set(order["devices"]) - has[key]
                has[key] = set(order["devices"])
                machine.start([(len(new), worker)], order["time"])
        machine.advance(orders[-1]["time"] + 1000.0)
        misses = [
            abs((startup.done_at or 0.0) - formed[key])
            for key, startup in started.items()
            if key in formed
        ]
        return float(sum(misses)) - float(np.minimum(guess, 0.0).sum())

    best = minimize(error, np.array([3.0, 0.6]), method="Nelder-Mead", options={"maxiter": 120})
    start, worker = np.maximum(best.x, 0.0).tolist()
    return start, worker


def _changes(job: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return [(a, b) for a, b in pairwise(job["spans"]) if a["attempt"] == b["attempt"]]


def _beside(
    cluster: Cluster, known: Sequence[TrainingTruth], jobs: Documents, *, several: bool
) -> tuple[float, float]:
    """Return what a step, and a pass, cost beside their declared time, on one device or on several.

    Least squares over all stretches, neither negative: means, since it is sums that jobs wait for.
    On one device nothing is added to a step.
    """
    rows, beside = [], []
    for truth, job in zip(known, jobs, strict=True):
        for span, simulated, epochs in stretches(cluster, truth, job):
            if (len(span["devices"]) > 1) == several and span["steps"] >= _LEAST_STEPS:
                rows.append([span["steps"] if several else 0.0, epochs])
                beside.append(span["until"] - span["since"] - simulated)
    if not rows:
        return 0.0, 0.0
    step, epoch = nnls(np.array(rows, dtype=float), np.array(beside, dtype=float))[0].tolist()
    return step, epoch


def stretches(
    cluster: Cluster, truth: TrainingTruth, job: Mapping[str, Any], costs: Overheads | None = None
) -> list[tuple[Mapping[str, Any], float, float]]:
    """Return a job's spans, the seconds that each takes by simulation, and the passes in it."""
    spans = [span for span in job["spans"] if span["steps"]]
    training = SimulatedTraining(truth, costs or Overheads(), Machine(), (), Saved(), 0.0)
    history = [
        (Allocation.named(cluster, span["devices"]).devices, span["steps"]) for span in spans
    ]
    per_epoch = -(-truth.samples // truth.batch)
    return [
        (span, seconds, span["steps"] / per_epoch)
        for span, seconds in zip(spans, training.follow(history), strict=True)
    ]
