"""What a job file can expect of a cluster: on which devices, with which split, how fast."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from staves.cli._expectation import declared_lines
from staves.cli._output import warn
from staves.cli._service import service_packages
from staves.engines.local import staves_home
from staves.errors import InputError
from staves.hardware import (
    Cluster,
    Configuration,
    KeptLinks,
    Layout,
    peak_teraflops,
    read_cluster,
    this_machine,
)

if TYPE_CHECKING:
    from staves.estimation import JobProfile
    from staves.service import Job, JobSpec, Span
    from staves.steptime import StepTimeModel

_MOST = 20_000  # configurations that are all compared; beyond, those of the fastest types
_REMEMBERED = 1000  # jobs of the store that are looked through


@dataclass(frozen=True)
class JobPlan:
    """What to expect of a job.

    Args:
        document: as `staves plan JOB --json` prints it, but for the split.
        model: of the devices that are best for it.
        batch: that was planned for, in samples.
    """

    document: dict[str, Any]
    model: StepTimeModel
    batch: int


def plan_job(
    path: Path, *, cluster: Path | None, steptime: Path | None, batch: int | None
) -> JobPlan:
    """Return what the job of that file can expect.

    Args:
        path: the job file.
        cluster: a cluster file; None for that of the service, or else this machine.
        steptime: a step-time file to go by.
        batch: total batch in samples; None for the job file's reference, or that of a past job.

    Raises:
        InputError: a file is malformed, the job does not fit the cluster, or nothing is known of
            its speed there.
    """
    spec, whole = _job(path, cluster)
    counts = whole.configuration
    usable = {n: c for n, c in counts.items() if spec.types is None or n in spec.types}
    source, profile = _profile(spec, whole, usable, steptime, batch, str(path))
    scaled = [name for name in usable if name not in profile.lines]
    speeds = _speeds(profile, usable)
    for name in scaled:
        if name not in speeds or not speeds.keys() & profile.lines.keys():
            raise InputError(
                f"{path}: nothing is known of its speed on {name}",
                hint="leave the type out (devices.types), or give --steptime with it",
            )
    options = _options(spec, usable, profile, speeds)
    if not options:
        raise InputError(
            f"{path}: no devices of the cluster hold a batch of {profile.batch}",
            hint="lower --batch, or raise max_batch of the types",
        )
    best = max(options, key=lambda option: option["samples_per_second"])
    lines = profile.type_lines(list(usable), speeds)
    document = {
        "job": spec.name,
        "source": source,
        "scaled_types": scaled,
        "emulated": any(whole.types[name].emulated for name in best["devices"]),
        "devices": best["devices"],
        "samples_per_second": best["samples_per_second"],
        "speed_up": best["speed_up"],
        "communication_known": lines.communication is not None,
        "options": options,
    }
    model = lines.model(tuple(best["devices"].get(name, 0) for name in usable))
    return JobPlan(document, model, profile.batch)


def _job(path: Path, cluster: Path | None) -> tuple[JobSpec, Cluster]:
    with service_packages():
        from staves.service import ServiceFolder, read_job
    kept = ServiceFolder(staves_home()).cluster_file
    if cluster is None and kept.exists():
        cluster = kept
    whole = this_machine() if cluster is None else read_cluster(cluster)
    whole = KeptLinks(staves_home(), warn).on(whole)
    spec = read_job(path, types=whole.configuration)
    spec.check_startable(whole.configuration, str(path))
    return spec, whole


def _profile(
    spec: JobSpec,
    cluster: Cluster,
    usable: Mapping[str, int],
    steptime: Path | None,
    batch: int | None,
    path: str,
) -> tuple[str, JobProfile]:
    """Return what is known of the job's speed, and where that is from."""
    from staves.estimation import JobProfile

    bounds = {
        name: (kind.profile.min_batch, kind.profile.max_batch)
        for name, kind in cluster.types.items()
        if kind.profile is not None
    }
    declared = {
        name: declared_lines(kind)
        for name in usable
        if (kind := cluster.types[name].profile) is not None
    }
    wanted = batch or spec.reference
    past = None if steptime is not None else _past_job(spec.name, cluster)
    if steptime is not None:
        source = f"the step-time file {steptime}"
        profile = _of_file(steptime, wanted or 1)
        bounds |= profile.bounds
    elif past is not None:
        job, profile = past
        source = f"job {job}, an earlier one of this name"
        wanted = wanted or profile.batch
    elif declared:
        source, profile = "the emulated types of the cluster file", JobProfile(1)
    else:
        raise InputError(
            f"{path}: nothing is known of its speed on this cluster",
            hint="measure it: staves profile SCRIPT --output FILE, then --steptime FILE",
        )
    if wanted is None:
        raise InputError(
            f"{path}: its batch is not known", hint="give --batch B, or batch.reference in the file"
        )
    own = {name: bounds[name] for name in bounds if name in usable}
    return source, replace(profile, batch=wanted, lines={**declared, **profile.lines}, bounds=own)


def _of_file(path: Path, batch: int) -> JobProfile:
    """Return the profile in a step-time file: of each type, its first device's."""
    from staves.estimation import JobProfile
    from staves.steptime import read_model

    model = read_model(path, on_warning=warn)
    first = {device.type: device for device in reversed(model.devices)}
    several = len(model.devices) > 1
    return JobProfile(
        batch,
        {name: (device.forward, device.backward) for name, device in first.items()},
        model.communication if several else None,
        len(model.devices),
        {name: (device.min_batch, device.max_batch) for name, device in first.items()},
    )


def _past_job(name: str, cluster: Cluster) -> tuple[str, JobProfile] | None:
    """Return id and profile of the newest job of that name of which a step is known; its batch is
    that of its steps."""
    from staves.service import ServiceFolder

    folder = ServiceFolder(staves_home()).path
    if not (folder / "staves.db").exists():
        return None
    with service_packages():
        from staves.service import Store
    with Store(folder, reader=True) as store:
        for job in reversed(store.jobs(limit=_REMEMBERED)):
            if job.record.name == name:
                profile = _past_profile(job, store.spans(job.id), cluster)
                if profile is not None:
                    return job.id, profile
    return None


def _past_profile(job: Job, spans: Sequence[Span], cluster: Cluster) -> JobProfile | None:
    """Return the fits of a job; or else, by the rule of `staves profile`, what one device alone
    took for a step; None where neither is known."""
    from staves.estimation import JobProfile

    batch = int(job.progress.get("batch") or job.spec.reference or 0)
    step = job.progress.get("step_seconds")
    if not batch:
        return None
    if job.knowledge and job.knowledge.get("lines"):
        return JobProfile.from_knowledge(job.knowledge, batch, layout=Layout.of(cluster))
    if not step or not spans or len(spans[-1].devices) != 1:
        return None
    types = {device.name: device.type.name for device in cluster.devices()}
    kind = types.get(spans[-1].devices[0])
    return None if kind is None else JobProfile.from_step(kind, step, batch)


def _speeds(profile: JobProfile, usable: Mapping[str, int]) -> dict[str, float]:
    """Return how fast types are beside each other: as measured, or by their data sheets."""
    from staves.estimation import relative_speeds

    names = usable.keys() | profile.lines.keys()
    priors = {name: peak for name in names if (peak := peak_teraflops(name)) is not None}
    return relative_speeds([profile], priors)


def _options(
    spec: JobSpec,
    usable: Mapping[str, int],
    profile: JobProfile,
    speeds: Mapping[str, float],
) -> list[dict[str, Any]]:
    """Return, for each number of devices that the job may have, the fastest of them."""
    import numpy as np

    from staves.estimation import EvenRates

    names = list(usable)
    most = min(spec.maximum or sum(usable.values()), spec.most_of(usable))
    table = np.array(
        [row for row in _configurations(usable, speeds, spec) if 1 <= sum(row) <= most],
        dtype=np.int64,
    ).reshape(-1, len(names))
    rates = profile.rates(names, speeds)(table)
    even = EvenRates(profile.batch, profile.type_lines(names, speeds))
    sizes = table.sum(axis=1)
    alone = float(rates[sizes == 1].max(initial=0.0))
    options = []
    for size in range(spec.minimum, most + 1):
        rows = np.flatnonzero((sizes == size) & (rates > 0))
        if not len(rows):
            continue
        row = rows[np.argmax(rates[rows])]
        rate, evenly = float(rates[row]), float(even(table[row : row + 1])[0])
        options.append(
            {
                "devices": {n: int(c) for n, c in zip(names, table[row], strict=True) if c},
                "samples_per_second": rate,
                "step_seconds": profile.batch / rate,
                "even_step_seconds": profile.batch / evenly if evenly else None,
                "speed_up": rate / alone if alone else None,
            }
        )
    return options


def _configurations(
    usable: Mapping[str, int], speeds: Mapping[str, float], spec: JobSpec
) -> list[tuple[int, ...]]:
    """Return the configurations to compare, a count of each type."""
    names = list(usable)
    if spec.mix and math.prod(count + 1 for count in usable.values()) <= _MOST:
        return list(itertools.product(*(range(usable[name] + 1) for name in names)))
    rows = {
        tuple(size if other == name else 0 for other in names)
        for name in names
        for size in range(1, usable[name] + 1)
    }
    if spec.mix:
        fastest = sorted(names, key=lambda name: -speeds.get(name, 1.0))
        order = [name for name in fastest for _ in range(usable[name])]
        for size in range(1, len(order) + 1):
            held = Counter(order[:size])
            rows.add(tuple(held[name] for name in names))
    return sorted(rows)


def describe(plan: JobPlan) -> list[str]:
    """Return what stands above the split: for whom, by what, and what is only guessed."""
    document = plan.document
    chosen = Configuration(document["devices"])
    lines = [f"{document['job']} on {chosen}, by {document['source']}"]
    if document["emulated"]:
        lines[0] += " (EMULATED devices: declared durations)"
    if document["scaled_types"]:
        names = ", ".join(document["scaled_types"])
        lines.append(f"Not measured, scaled by the types' known speeds: {names}.")
    if not document["communication_known"] and sum(document["devices"].values()) > 1:
        lines.append("Communication was never measured: 3 % of each further device is taken off.")
    return lines
