"""From requests and profiles to the jobs of a simulation."""

from __future__ import annotations

from collections.abc import Mapping

from staves.documents import suggestion
from staves.errors import InputError, quoted
from staves.hardware import Cluster
from staves.scheduling import Estimator, JobKind, JobView
from staves.simulation._application import Application
from staves.simulation._declared import DeclaredApplication, DeclaredWork
from staves.simulation._product_work import Learning, ProductWork
from staves.simulation._profile_work import ApplicationRates, ProfileWork
from staves.simulation._rated import RatedApplication, RatedWork
from staves.simulation._sia_work import SiaWork
from staves.simulation._work import Submission, Work
from staves.simulation._workload import Request, Workload

AnyApplication = Application | RatedApplication | DeclaredApplication


def submissions(
    workload: Workload,
    applications: Mapping[str, AnyApplication],
    cluster: Cluster,
    kind: JobKind,
    *,
    forced: JobKind | None = None,
    in_place_seconds: float | None = None,
    estimator: Estimator | None = None,
) -> list[Submission]:
    """Return the jobs; those whose rates are the truth share one table for a kind and batch.

    Args:
        workload: the requests.
        applications: their profiles by name.
        cluster: whose types and nodes count.
        kind: what jobs can do of which the workload does not say it. Rigid jobs have what they
            asked for, of one type.
        forced: what all jobs can do, whatever the workload says.
        in_place_seconds: the pause of a change in place; None: a change is a restart.
        estimator: what jobs' speeds are learned with; None: they are known.

    Raises:
        InputError: a job's application has no profile, or its requests fit on no devices at all.
    """
    types = tuple(cluster.configuration)
    sizes = tuple(max(node.devices.get(name, 0) for node in cluster.nodes) for name in types)
    shared: dict[tuple[str, int | None], ApplicationRates] = {}
    learning = Learning(types, sizes, cluster.total)
    result = []
    for request in workload.requests:
        application = applications.get(request.application)
        if application is None:
            raise InputError(
                f"{request.name}: no profile of the application {quoted(request.application)}",
                hint=suggestion(request.application, applications),
            )
        own = forced or request.kind or kind
        work = _work(request, application, types, sizes, own, estimator, shared, learning)
        view = _view(request, application, work, cluster.total, own, in_place_seconds, types)
        ended = work.ended if isinstance(work, ProductWork) else None
        result.append(Submission(view, work, ended))
    return result


def _work(
    request: Request,
    application: AnyApplication,
    types: tuple[str, ...],
    sizes: tuple[int, ...],
    kind: JobKind,
    estimator: Estimator | None,
    shared: dict[tuple[str, int | None], ApplicationRates],
    learning: Learning,
) -> Work:
    if isinstance(application, DeclaredApplication):
        if request.seconds is None:
            raise InputError(
                f"{request.name}: neither a profile nor a declared duration",
                hint=f"give --profiles with the application {quoted(request.application)}",
            )
        return DeclaredWork(application, types, request.devices, request.seconds)
    if isinstance(application, RatedApplication):
        return RatedWork(application, types, sizes, request.steps or 0.0)
    if estimator == "sia":
        adaptive = kind == "adaptive"
        return SiaWork(application, types, sizes, request.batch, adaptive=adaptive)
    batch = None if kind == "adaptive" else request.batch
    key = (application.name, batch)
    if key not in shared:
        shared[key] = ApplicationRates(application, types, sizes, batch)
    return learning.work(shared[key]) if estimator == "product" else ProfileWork(shared[key])


def _view(
    request: Request,
    application: AnyApplication,
    work: Work,
    devices: int,
    kind: JobKind,
    in_place_seconds: float | None,
    types: tuple[str, ...],
) -> JobView:
    rigid = kind == "rigid"
    most = min(application.most_devices, devices)
    if isinstance(application, DeclaredApplication):  # it did run on what it asked for
        most = min(max(most, request.devices), devices)
    pause = application.pause_seconds
    return JobView(
        request.name,
        request.time,
        work.rates(0),
        minimum=request.devices if rigid else request.minimum or 1,
        maximum=request.devices if rigid else min(request.maximum or most, most),
        types=_allowed(request, types),
        mix=not rigid,
        weight=request.weight,
        elastic=request.preemptible,
        start_pause=pause,
        resize_pause=pause if in_place_seconds is None else in_place_seconds,
        application=application.name,
        requested=request.devices,
        deadline=request.deadline,
        tenant=request.tenant,
    )


def _allowed(request: Request, types: tuple[str, ...]) -> frozenset[int] | None:
    """Return which of the cluster's types the job may have; None for all."""
    if request.types is None:
        return None
    found = frozenset(index for index, name in enumerate(types) if name in request.types)
    if not found:
        raise InputError(
            f"{request.name}: asks for {' or '.join(request.types)}, and the cluster has"
            f" {', '.join(types)}",
            hint="use a cluster with one of them",
        )
    return found
