"""What the scheduler believes of each job: its profile, the work that is left, what it had."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from staves.engines._base import Status
from staves.estimation import (
    CollaborativeFilter,
    InformedRates,
    JobProfile,
    Measurements,
    worth_measuring,
)
from staves.hardware import Cluster, Layout
from staves.scheduling import Doubt, Rates
from staves.service._history import cells_of
from staves.service._learning import node_sizes
from staves.service._rows import Job, Round, Span

_UNKNOWN_BATCH = 32  # samples; only ratios of rates count before anything is known


def profile_of(
    job: Job, status: Status | None, cluster: Cluster, layout: Layout | None = None
) -> JobProfile:
    """Return the job's profile: its fits, or else what one device alone took for a step.

    Args:
        job: as it is stored.
        status: of its attempt under way, if there is one.
        cluster: its emulated types say how many samples a device can hold.
        layout: its; None where no rates are asked for.
    """
    progress = progress_of(job, status)
    batch = int(progress.get("batch") or job.spec.reference or _UNKNOWN_BATCH)
    knowledge = (status.knowledge if status else None) or job.knowledge
    bounds = {
        name: (kind.profile.min_batch, kind.profile.max_batch)
        for name, kind in cluster.types.items()
        if kind.profile is not None
    }
    profile = JobProfile.from_knowledge(knowledge, batch, bounds, layout)
    step = progress.get("step_seconds")
    alone = status is not None and len(status.devices) == 1
    if profile.lines or step is None or status is None or not alone:
        return profile
    kind = next((d.type.name for d in cluster.devices() if d.name == status.devices[0]), None)
    return profile if kind is None else JobProfile.from_step(kind, step, batch, bounds)


def fitted_types(job: Job, status: Status | None) -> frozenset[str]:
    """Return the device types on which the job's lines have been fitted."""
    knowledge = (status.knowledge if status else None) or job.knowledge
    return JobProfile.from_knowledge(knowledge, 1).measured


def progress_of(job: Job, status: Status | None) -> Mapping[str, Any]:
    """Return the newest progress: of the attempt under way, or as it was stored."""
    return (status.progress if status else None) or job.progress


@dataclass(frozen=True, slots=True)
class Belief:
    """How fast a job is believed to be.

    Args:
        rates: of any configuration.
        log_std: how sure they are; None where nothing tells.
        measured: cells that the job was measured at.
        model: of past jobs; None where too few are known.
    """

    rates: Rates
    log_std: Doubt | None = None
    measured: Measurements = field(default_factory=dict)
    model: CollaborativeFilter | None = None

    def probes(self, types: Sequence[str], cost: float) -> tuple[str, ...] | None:
        """Return which of `types` are worth a probe, the best first; None where nothing tells.

        Args:
            types: on which the job has no lines.
            cost: of a probe, as a share of the job's remaining time.
        """
        if self.model is None:
            return None
        return worth_measuring(self.model, self.measured, types, cost)


def belief_of(
    profile: JobProfile,
    rounds: Sequence[Round],
    cluster: Cluster,
    speeds: Mapping[str, float],
    model: CollaborativeFilter | None,
) -> Belief:
    """Return what is believed of a job.

    Args:
        profile: what it has learned.
        rounds: in which it was measured.
        cluster: its types, in their order, are those of the rates.
        speeds: of one device of each type, where no model tells.
        model: of past jobs, with the cells of `ladder_of(cluster)`.
    """
    types = tuple(cluster.configuration)
    if model is None:
        return Belief(profile.rates(types, speeds))
    measured, sizes = cells_of(rounds, profile), node_sizes(cluster)
    if measured or profile.lines:
        rates = InformedRates(profile, model, measured, types, sizes)
    else:
        rates = _of_a_stranger(model, types, sizes)
    return Belief(rates, rates.log_std, measured, model)


@lru_cache(maxsize=4)
def _of_a_stranger(
    model: CollaborativeFilter, types: tuple[str, ...], sizes: tuple[int, ...]
) -> InformedRates:
    """Return the rates of a job of which nothing is known: a long queue has many."""
    return InformedRates(JobProfile(1), model, {}, types, sizes)


def remaining(progress: Mapping[str, Any]) -> float:
    """Return the samples that are left; inf where the job has not said how many there are."""
    total = progress.get("total_samples")
    if not total:
        return math.inf
    return max(0.0, float(total) - float(progress.get("samples") or 0))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Time on the same devices.

    Args:
        devices: their names.
        since, until: Unix seconds; a stretch that lasts ends now.
    """

    devices: tuple[str, ...]
    since: float
    until: float

    @property
    def seconds(self) -> float:
        """How long it was."""
        return max(0.0, self.until - self.since)


def stretches(spans: Sequence[Span], now: float) -> tuple[Stretch, ...]:
    """Return the stretches of stored spans."""
    return tuple(Stretch(s.devices, s.since, s.until or now) for s in spans)


def stretches_of(status: Status | None, now: float) -> tuple[Stretch, ...]:
    """Return those of an attempt under way."""
    spans = status.spans if status else ()
    return tuple(Stretch(tuple(s["devices"]), s["since"], s.get("until") or now) for s in spans)


def held_seconds(
    had: Sequence[Stretch], type_of: Mapping[str, str], types: Sequence[str]
) -> tuple[float, ...]:
    """Return how long a job has had devices of each of `types`; devices that are gone count not."""
    return tuple(
        sum(one.seconds for one in had if name in map(type_of.get, one.devices)) for name in types
    )
