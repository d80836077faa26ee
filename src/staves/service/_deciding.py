"""From jobs and statuses to a policy's view, and from its decision to devices."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from staves.engines._base import Status
from staves.estimation import CollaborativeFilter, JobProfile, relative_speeds
from staves.estimation.filtering import PROBE_COST
from staves.hardware import Allocation, Cluster, Device, Layout, peak_teraflops
from staves.scheduling import (
    Counts,
    Decision,
    JobView,
    Policy,
    View,
    decision_of,
    place,
    with_probes,
)
from staves.service._beliefs import (
    Belief,
    Stretch,
    belief_of,
    fitted_types,
    held_seconds,
    profile_of,
    progress_of,
    remaining,
)
from staves.service._rows import Job, Round

_MEASURING = 10.0  # seconds on a mixed set until its types are fitted
_SHORTEST = 1e-3  # seconds: of a job that is all but over


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that a decision is about, with what the store alone does not say.

    Args:
        job: as it is stored.
        status: of its attempt under way, if there is one.
        held: it must keep exactly what it has, for now: it is being measured.
        settling: it has just changed: for now it may grow, but loses nothing.
        had: when it has had which devices.
        waiting: as `JobView.waiting`.
        pause_left: seconds that are left of a pause under way.
        unchanged: seconds since its devices last changed; inf where it has none.
        rounds: in which it was measured.
    """

    job: Job
    status: Status | None = None
    held: bool = False
    settling: bool = False
    had: tuple[Stretch, ...] = ()
    waiting: float = 0.0
    pause_left: float = 0.0
    unchanged: float = math.inf
    rounds: tuple[Round, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision, and the devices that it means.

    Args:
        view: what the policy saw.
        decision: what it answered, with probes.
        allocations: by job id; jobs that get nothing are absent.
        unable: why a job was not in the view at all, by id.
    """

    view: View
    decision: Decision
    allocations: Mapping[str, Allocation]
    unable: Mapping[str, str] = field(default_factory=dict)


def decide(
    policy: Policy,
    candidates: Sequence[Candidate],
    cluster: Cluster,
    *,
    now: float,
    drained: Collection[str],
    busy: Collection[str],
    start_pause: float,
    resize_pause: float,
    resize_delay: float,
    others: Sequence[JobProfile] = (),
    model: CollaborativeFilter | None = None,
    quotas: Mapping[str, int] | None = None,
) -> Outcome:
    """Let the policy decide, and place what it decided.

    Args:
        policy: decides.
        candidates: jobs that wait or have devices, in order of submission.
        cluster: all nodes.
        now: Unix seconds.
        drained: nodes that get nothing new.
        busy: devices that jobs which are ending still have.
        start_pause, resize_pause, resize_delay: expected seconds, as of `JobView`.
        others: profiles of past jobs, for how fast types are beside each other.
        model: of past jobs, for this cluster; None where too few are known.
        quotas: as of `View`; None for none.

    Raises:
        StavesError: the policy failed, or its decision breaks its contract.
    """
    devices = cluster.devices()
    types = tuple(cluster.configuration)
    type_of = {device.name: device.type.name for device in devices}
    layout = Layout.of(cluster)
    profiles = [profile_of(c.job, c.status, cluster, layout) for c in candidates]
    priors = {name: value for name in types if (value := peak_teraflops(name)) is not None}
    speeds = relative_speeds([*profiles, *others], priors)
    current = _current(candidates, devices)
    pinned = {c.job.id for c in candidates if c.job.id in current and _pinned(c)}
    kept = {name for job in pinned for name in current[job].names}
    usable = [
        d for d in devices if d.name in kept or (d.node not in drained and d.name not in busy)
    ]
    nodes = [node.name for node in cluster.nodes]
    rows = {name: _counts([d for d in usable if d.node == name], types) for name in nodes}
    jobs, unable = [], {}
    for candidate, profile in zip(candidates, profiles, strict=True):
        job = candidate.job
        why = _impossible(job, cluster)
        if why and job.id not in current:
            unable[job.id] = why
            continue
        jobs.append(
            _view_of(
                candidate,
                belief_of(profile, candidate.rounds, cluster, speeds, model),
                types,
                current.get(job.id),
                now=now,
                type_of=type_of,
                total=cluster.total,
                within_reach=_within_reach(candidate, candidates, usable, quotas or {}),
                start_pause=start_pause,
                resize_pause=resize_pause,
                resize_delay=resize_delay,
            )
        )
    view = View(now, types, _counts(usable, types), tuple(rows.values()), tuple(jobs), quotas or {})
    decision = with_probes(view, decision_of(policy, view))
    allocations = place(
        usable, decision.chosen, types, current, placing=policy.placing, fixed=pinned
    )
    return Outcome(view, decision, allocations, unable)


def _pinned(candidate: Candidate) -> bool:
    return candidate.held or not candidate.job.record.elastic


def _current(candidates: Sequence[Candidate], devices: Sequence[Device]) -> dict[str, Allocation]:
    """Return what active jobs have been granted; devices that are no more are left out."""
    by_name = {device.name: device for device in devices}
    result = {}
    for candidate in candidates:
        record = candidate.job.record
        there = tuple(by_name[name] for name in record.devices if name in by_name)
        if record.active and there:
            result[candidate.job.id] = Allocation(there)
    return result


def _counts(devices: Sequence[Device], types: tuple[str, ...]) -> Counts:
    names = [device.type.name for device in devices]
    return tuple(names.count(name) for name in types)


def _impossible(job: Job, cluster: Cluster) -> str | None:
    """Say why no state of this cluster could ever run the job; None where one could."""
    spec = job.spec
    most = spec.most_of(cluster.configuration)
    if most >= spec.minimum:
        return None
    kinds = "" if spec.types is None else " of " + " or ".join(spec.types)
    alike = "" if spec.mix else " alike"
    wanted = "1 device" if spec.minimum == 1 else f"{spec.minimum} devices"
    return f"it wants {wanted}{alike}{kinds}, the cluster has {most}"


def _within_reach(
    candidate: Candidate,
    candidates: Sequence[Candidate],
    usable: Sequence[Device],
    quotas: Mapping[str, int],
) -> int:
    """Return how many devices a job could be given while all others keep what they need."""
    spec, tenant = candidate.job.spec, candidate.job.tenant
    names = {d.name for d in usable if spec.types is None or d.type.name in spec.types}
    taken = ours = 0
    for other in candidates:
        record = other.job.record
        if other is candidate or not record.active:
            continue
        needs = len(record.devices)
        if not (_pinned(other) or other.settling):
            needs = max(other.job.spec.minimum, other.job.spec.guaranteed)
        taken += min(needs, len(names & set(record.devices)))
        ours += needs if other.job.tenant == tenant else 0
    return min(len(names) - taken, max(quotas.get(tenant, len(names)) - ours, 0))


def _view_of(
    candidate: Candidate,
    belief: Belief,
    types: tuple[str, ...],
    current: Allocation | None,
    *,
    now: float,
    type_of: Mapping[str, str],
    total: int,
    within_reach: int,
    start_pause: float,
    resize_pause: float,
    resize_delay: float,
) -> JobView:
    job, status = candidate.job, candidate.status
    spec, record = job.spec, job.record
    allowed = None
    if spec.types is not None:
        allowed = frozenset(types.index(name) for name in spec.types if name in types)
    fitted = fitted_types(job, status)
    # Until it has said that it can be resized, it gets what it needs, and keeps that.
    most = (spec.maximum or total) if record.elastic else spec.minimum
    had = None if current is None else _counts(current.devices, types)
    pinned = had is not None and _pinned(candidate)
    if pinned and had is not None:
        most = max(most, sum(had))
    count = sum(had or ())
    least, guaranteed = spec.minimum, max(spec.guaranteed, count if candidate.settling else 0)
    if spec.scaled is not None and record.elastic and not pinned:
        # What others cannot spare is waited for, with what it has.
        most = spec.scaled
        least = most if most <= within_reach else min(most, max(least, min(count, within_reach)))
        guaranteed = min(guaranteed, most)
    progress = progress_of(job, status)
    left = remaining(progress) if record.elastic else math.inf
    unmeasured = frozenset(
        g
        for g, name in enumerate(types)
        if record.elastic and name not in fitted and (allowed is None or g in allowed)
    )
    cost = _probe_cost(belief, had, left, resize_pause + resize_delay)
    worth = belief.probes([types[g] for g in sorted(unmeasured)], cost)
    step_work = float(progress.get("batch") or 0) if spec.scaling == "fixed" else 0.0
    return JobView(
        id=job.id,
        name=f"{job.record.name} (job {job.id})",
        submitted=job.submitted,
        rates=belief.rates,
        remaining=left,
        minimum=least,
        maximum=most,
        types=allowed,
        mix=spec.mix,
        weight=max(spec.priority, 1) / 50,
        elastic=not pinned,
        current=had,
        guaranteed=guaranteed,
        settling=candidate.held or (candidate.settling and guaranteed > spec.guaranteed),
        attained=sum(len(one.devices) * one.seconds for one in candidate.had),
        held_seconds=held_seconds(candidate.had, type_of, types),
        age=now - candidate.had[0].since if candidate.had else 0.0,
        restarts=max(0, len(candidate.had) - 1),
        progress=float(progress.get("samples") or 0) if record.elastic else 0.0,
        waiting=candidate.waiting,
        start_pause=start_pause,
        resize_pause=resize_pause,
        resize_delay=resize_delay,
        pause_left=candidate.pause_left,
        unchanged=candidate.unchanged,
        deadline=math.inf if spec.deadline is None else job.submitted + spec.deadline,
        step_work=step_work,
        steps_left=left / step_work if step_work else math.inf,
        unmeasured=unmeasured,
        probes=None if worth is None else tuple(types.index(name) for name in worth),
        log_std=belief.log_std,
        tenant=job.tenant,
    )


def _probe_cost(belief: Belief, had: Counts | None, left: float, change: float) -> float:
    """Return what a probe takes, as a share of the time that is left on what the job has.

    Two changes of `change` seconds, and the time to measure; the devices on their way count whole,
    for they serve nobody.
    """
    if had is None or not math.isfinite(left):
        return PROBE_COST
    rate = float(belief.rates(np.array([had], dtype=np.int64))[0])
    seconds = left / rate if rate > 0 else math.inf
    return (2 * change + _MEASURING) / max(seconds, _SHORTEST)
