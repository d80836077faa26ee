"""From measured rounds to what the estimator learns from: cells of one type of devices each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from staves.estimation import Cell, History, JobProfile, Measured, ProfileRates
from staves.service._rows import MeasuredJob, Round


def history_of(jobs: Iterable[MeasuredJob]) -> History:
    """Return the history of measured jobs, by id, each at its newest batch.

    Raises:
        InputError: what a job has learned is malformed.
    """
    cells = {job.id: cells_of(job.rounds, _profile(job)) for job in jobs}
    return History({job: measured for job, measured in cells.items() if measured})


def _profile(job: MeasuredJob) -> JobProfile:
    return JobProfile.from_knowledge(job.knowledge, job.rounds[-1].batch)


def history_documents(jobs: Iterable[MeasuredJob]) -> list[dict[str, Any]]:
    """Return the history as rows: job, device_type, devices, nodes, throughput, source.

    The source is `measured`, or `model` where the job's step-time model has told it.
    """
    rows = []
    for job in jobs:
        profile = _profile(job)
        measured = _measured(job.rounds, profile)
        for cell, found in sorted({**_modelled(job.rounds, profile), **measured}.items()):
            rows.append(
                {
                    "job": job.id,
                    "device_type": cell.device_type,
                    "devices": cell.devices,
                    "nodes": cell.nodes,
                    "throughput": math.exp(found.log_throughput),
                    "source": "measured" if cell in measured else "model",
                }
            )
    return rows


def cells_of(rounds: Sequence[Round], profile: JobProfile) -> dict[Cell, Measured]:
    """Return what a job does on devices of one type, in samples a second.

    All at the profile's batch: throughputs at several batches are no row of one table. A round on
    devices of one type is a cell. Rounds on mixed devices are none; what they have shown is in the
    job's lines, by type: of every type that has lines, one device is a cell, and as many as trained
    together somewhere, on as many nodes, by the step-time model. What was measured itself counts.

    Args:
        rounds: of one job.
        profile: its lines.
    """
    return {**_modelled(rounds, profile), **_measured(rounds, profile)}


def _measured(rounds: Sequence[Round], profile: JobProfile) -> Mapping[Cell, Measured]:
    return History.of(
        ("", Cell(kind, count, one.nodes), one.throughput)
        for one in rounds
        if one.batch == profile.batch and len(one.devices) == 1
        for kind, count in one.devices.items()
    ).of_job("")


def _modelled(rounds: Sequence[Round], profile: JobProfile) -> Mapping[Cell, Measured]:
    alike = [one for one in rounds if one.batch == profile.batch]
    shapes = {(1, 1)} | {(sum(one.devices.values()), one.nodes) for one in alike}
    return History.of(("", cell, rate) for cell, rate in _by_lines(profile, shapes)).of_job("")


def _by_lines(
    profile: JobProfile, shapes: Iterable[tuple[int, int]]
) -> Iterator[tuple[Cell, float]]:
    """Yield cells of `shapes`, devices and nodes, as the job's lines have them."""
    types = sorted(profile.measured)
    rates = profile.rates(types)
    if not isinstance(rates, ProfileRates):  # nothing has been measured
        return
    for devices, nodes in sorted(shapes):
        if devices > 1 and profile.communication is None:
            continue
        found = rates(devices * np.eye(len(types), dtype=np.int64))
        for kind, rate in zip(types, found.tolist(), strict=True):
            if math.isfinite(rate) and rate > 0:
                yield Cell(kind, devices, nodes), rate
