"""From what people name on the command line to cluster, workload and profiles."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from staves.documents import suggestion
from staves.errors import InputError, quoted
from staves.estimation import LOSS
from staves.hardware import Cluster, read_cluster
from staves.simulation._counted import Counted, Tally
from staves.simulation._declared import DeclaredApplication, declared_speeds
from staves.simulation._generate import generate
from staves.simulation._profiles import read_profiles
from staves.simulation._rated import RatedApplication
from staves.simulation._setup import Setup, sia_cluster
from staves.simulation._submissions import AnyApplication
from staves.simulation._synthetic import synthetic_applications
from staves.simulation._workload import Request, Workload
from staves.simulation.readers import (
    is_folder_of_tables,
    read_node_list,
    read_tables,
    read_throughputs,
    read_workload,
)

_PRESET = re.compile(r"sia-(\d{1,7})")
_SYNTHETIC = re.compile(r"synthetic-(\d{1,6})")
_MOST_NAMES = 3  # of unknown applications that one line tells


def material(
    cluster: str,
    workload: str,
    profiles: Sequence[Path],
    setup: Setup,
    type_names: Mapping[str, str] | None = None,
    seed: int = 0,
) -> tuple[Cluster, Workload, Mapping[str, AnyApplication]]:
    """Return what a simulation is made of.

    Args:
        cluster: a cluster file, a list of nodes (`.csv`), or `sia-N` for N devices in the
            proportions of the Sia paper.
        workload: a file of jobs of any known format, or `synthetic-N` for N jobs of the product's
            own applications.
        profiles: folders of profiles, or throughputs: one file of Gavel's, or folders of
            ElasticFlow's; the product's own where there are none.
        setup: what profiles do not say.
        type_names: what suffixes of profile files mean.
        seed: of a synthetic workload.

    Raises:
        InputError: something is absent, damaged, or does not go together.
    """
    there = _cluster(cluster)
    types = tuple(there.configuration)
    drawn = synthetic_jobs(workload)
    if drawn is not None:
        if profiles:
            raise InputError(
                f"{workload} has profiles of its own", hint="leave --profiles out, or name a file"
            )
        if drawn < 1:
            raise InputError(f"{workload}: no job", hint="ask for one at least")
        applications = synthetic_applications(types)
        return there, generate(drawn, applications, seed), applications
    jobs = _fitting(_read_workload(workload), there)
    if not profiles:
        return there, *_with_declared(jobs, synthetic_applications(types), there, setup)
    rated = _throughputs(profiles, setup.other_pause_seconds)
    if rated is not None:
        return there, _with_throughput(jobs, rated, types), rated
    wanted = {request.application for request in jobs.requests}
    read = read_profiles(profiles, setup, types, applications=wanted, type_names=type_names)
    return there, *_with_declared(jobs, read, there, setup)


def synthetic_jobs(workload: str) -> int | None:
    """Return N of `synthetic-N`; None for the name of a file."""
    match = _SYNTHETIC.fullmatch(workload)
    return None if match is None else int(match[1])


def _fitting(workload: Workload, cluster: Cluster) -> Workload:
    """Return the workload without jobs that declare what the cluster does not have, counted."""
    tally = Tally()
    types = set(cluster.configuration)
    kept = []
    for request in workload.requests:
        if request.types is not None and not types & set(request.types):
            tally.drop("are jobs for device types that the cluster does not have")
        elif request.seconds is not None and request.devices > cluster.total:
            tally.drop("are jobs for more devices than the cluster has")
        else:
            kept.append(request)
    if not kept:
        raise InputError(
            f"{workload.name}: no job fits on the cluster: {tally.counted()[0]}",
            hint=f"it has {cluster.total} devices: {', '.join(sorted(types))}",
        )
    return replace(workload, requests=tuple(kept), counted=(*workload.counted, *tally.counted()))


def _with_declared(
    workload: Workload,
    applications: Mapping[str, AnyApplication],
    cluster: Cluster,
    setup: Setup,
) -> tuple[Workload, Mapping[str, AnyApplication]]:
    """Return workload and applications; jobs without a profile run as they declare, and it is said.

    Those that declare nothing either are dropped, and counted.
    """
    workload = _known(workload, applications)
    declaring = {
        request.application
        for request in workload.requests
        if request.seconds is not None and request.application not in applications
    }
    if not declaring:
        return workload, applications
    speeds = declared_speeds(cluster)
    usual = next(name for name, speed in speeds if speed == 1.0)
    number = sum(request.application in declaring for request in workload.requests)
    assumed = (
        f"{number} of {len(workload.requests)} jobs have no profile, and run for their declared"
        f" duration on the devices they ask for, of type {usual}; how they would run on others is"
        f" assumed: n devices are n / (1 + {LOSS:g} (n - 1)) times as fast as one, other types as"
        " their peaks in 32-bit arithmetic say"
    )
    declared = {
        name: DeclaredApplication(
            name, speeds, setup.pause_seconds.get(name, setup.other_pause_seconds)
        )
        for name in sorted(declaring)
    }
    known = replace(workload, assumed=(*workload.assumed, assumed))
    return known, {**applications, **declared}


def _known(workload: Workload, applications: Mapping[str, AnyApplication]) -> Workload:
    """Return the workload without jobs that have neither a profile nor a duration, counted.

    Raises:
        InputError: no other job is left.
    """
    unknown = Counter(
        request.application
        for request in workload.requests
        if request.seconds is None and request.application not in applications
    )
    if not unknown:
        return workload
    names = [name for name, _ in unknown.most_common(_MOST_NAMES)]
    listed = ", ".join(map(quoted, names))
    if more := len(unknown) - len(names):
        listed += f" and {more} more"
    kept = tuple(
        request
        for request in workload.requests
        if request.seconds is not None or request.application in applications
    )
    if not kept:
        raise InputError(
            f"{workload.name}: no job has a profile or a declared duration: {listed}",
            hint=suggestion(names[0], applications),
        )
    what = f"are jobs without a profile or a declared duration, of {listed}"
    counted = Counted(unknown.total(), what, dropped=True)
    return replace(workload, requests=kept, counted=(*workload.counted, counted))


def _throughputs(
    profiles: Sequence[Path], pause_seconds: float
) -> dict[str, RatedApplication] | None:
    """Return applications of which throughputs are all that is known; None for real profiles."""
    if any(path.name.removesuffix(".gz").endswith(".json") for path in profiles):
        if len(profiles) > 1:
            raise InputError("a file of throughputs stands alone", hint="give one --profiles")
        return read_throughputs(profiles[0], pause_seconds)
    tables = [is_folder_of_tables(path) for path in profiles]
    if not any(tables):
        return None
    if not all(tables):
        raise InputError(
            f"{profiles[tables.index(False)]}: is no folder of throughputs, and"
            f" {profiles[tables.index(True)]} is one",
            hint="give --profiles of one kind",
        )
    return read_tables(profiles, pause_seconds)


def _rated_name(request: Request, applications: Mapping[str, RatedApplication]) -> str:
    """Return how throughputs name a job's application: by its batch, too, in most tables."""
    with_batch = f"{request.application} (batch size {request.batch})"
    return with_batch if with_batch in applications else request.application


def _with_throughput(
    workload: Workload, applications: Mapping[str, RatedApplication], types: Sequence[str]
) -> Workload:
    """Return the workload without the jobs that no throughput is known of, and say how many."""
    named = (
        replace(request, application=_rated_name(request, applications))
        for request in workload.requests
    )
    kept = tuple(
        request
        for request in named
        if request.steps is not None
        and (one := applications.get(request.application)) is not None
        and one.runs_on(request.devices, types)
    )
    dropped = len(workload.requests) - len(kept)
    if not kept:
        raise InputError(
            f"{workload.name}: no job has a throughput on {', '.join(types)}",
            hint="throughputs go with a trace of the same source, and a cluster of its types",
        )
    counted = Counted(dropped, "are jobs without a throughput", dropped=True)
    return replace(
        workload,
        requests=kept,
        counted=(*workload.counted, counted) if dropped else workload.counted,
    )


def _read_workload(name: str) -> Workload:
    if not Path(name).exists():
        raise InputError(
            f"{name}: no such file of jobs",
            hint="built in is synthetic-N, N jobs drawn from the seed: synthetic-160",
        )
    return read_workload(Path(name))


def _cluster(name: str) -> Cluster:
    if name.removesuffix(".gz").endswith(".csv"):
        listed = read_node_list(Path(name))
        notes = tuple(f"{listed.name}: {note}" for note in (*listed.counted, *listed.assumed))
        return replace(listed.cluster, warnings=notes)
    preset = _PRESET.fullmatch(name)
    if Path(name).exists():
        return read_cluster(name)
    if preset is None:
        raise InputError(
            f"{name}: no such cluster file",
            hint="built in is sia-N, N devices in multiples of 64: sia-64, sia-128, ...",
        )
    devices = int(preset[1])
    if devices < 64 or devices % 64:
        raise InputError(
            f"no cluster {quoted(name)}: {devices} is no multiple of 64",
            hint="sia-64, sia-128, ...",
        )
    return sia_cluster(devices // 64)
