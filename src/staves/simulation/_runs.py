"""Several policies and seeds on one workload, side by side in processes."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any, Literal

from staves.documents import suggestion
from staves.errors import InputError, quoted
from staves.hardware import Cluster
from staves.scheduling import Estimator, Heet, JobKind, Policy, policy
from staves.scheduling.heet import RESTARTS
from staves.simulation._conditions import Conditions
from staves.simulation._erring import erring
from staves.simulation._simulate import replay
from staves.simulation._submissions import AnyApplication, submissions
from staves.simulation._summary import job_document, summary
from staves.simulation._work import Submission
from staves.simulation._workload import Workload

IN_PLACE_SECONDS = 5.0
"""The pause of a change in place where nothing else is said."""

Beliefs = Literal["oracle", "learned"]


@dataclass(frozen=True)
class Experiment:
    """One run: everything that decides its outcome.

    Args:
        policy: its name.
        cluster, workload, applications: what there is, comes, and is true.
        kind: what all jobs can do; None: as the workload says, or else as the policy takes them.
        beliefs: oracle: policies know the truth. learned: those whose system has an estimator know
            what it has learned.
        in_place_seconds: pause of a change in place, for policies that change in place; None: every
            change is a restart for everybody.
        conditions: failures and stragglers; holds the seed.
        until: seconds at which to stop.
        belief_error: deviation of the logarithm by which beliefs are off, by job and set of device
            types, drawn from the seed of the conditions; with oracle beliefs only.
        variant: what decides, where that is not the policy of this name as it is made; the name
            then only labels the run.
        quotas: devices that jobs of a tenant may have together, by tenant.

    Raises:
        InputError: the error is negative, not finite, or comes on top of what was learned; or a
            quota is of a tenant that has no job.
    """

    policy: str
    cluster: Cluster
    workload: Workload
    applications: Mapping[str, AnyApplication]
    kind: JobKind | None = None
    beliefs: Beliefs = "oracle"
    in_place_seconds: float | None = None
    conditions: Conditions = field(default_factory=Conditions)
    until: float = math.inf
    belief_error: float = 0.0
    variant: Policy | None = None
    quotas: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.quotas:
            self._check_tenants()
        if not 0 <= self.belief_error < math.inf:
            raise InputError(
                f"the error of beliefs must be finite and not negative, not {self.belief_error}",
                hint="0.1 is about ten percent",
            )
        if self.belief_error and self.beliefs != "oracle":
            raise InputError(
                "a declared error goes with oracle beliefs: learned ones err by themselves",
                hint="leave one of the two out",
            )

    def _check_tenants(self) -> None:
        tenants = {request.tenant for request in self.workload.requests} - {""}
        for tenant in self.quotas:
            if tenant not in tenants:
                raise InputError(
                    f"the workload {self.workload.name} has no job of the tenant {quoted(tenant)}",
                    hint=suggestion(tenant, tenants) if tenants else "its jobs name no tenants",
                )


Progress = Callable[[int, float], None]


def run(experiment: Experiment, progress: Progress | None = None) -> dict[str, Any]:
    """Return the JSON of one run.

    Raises:
        InputError: an unknown policy, or a job that has no profile.
    """
    chosen = _policy(experiment)
    estimator = chosen.estimator if experiment.beliefs == "learned" else None
    jobs = _jobs(experiment, chosen, estimator)
    if experiment.belief_error:
        seed = experiment.conditions.seed
        jobs = [erring(job, experiment.belief_error, seed, n) for n, job in enumerate(jobs)]
    done = replay(
        chosen,
        experiment.cluster,
        jobs,
        conditions=experiment.conditions,
        quotas=experiment.quotas,
        until=experiment.until,
        progress=progress,
    )
    return {
        "policy": experiment.policy,
        "workload": experiment.workload.name,
        "seed": experiment.conditions.seed,
        "job_kind": experiment.kind or chosen.job_kind,
        "quotas": dict(experiment.quotas),
        "assumed": list(experiment.workload.assumed),
        # Bounds and fair shares are of true speeds, not of what was believed.
        "summary": summary(done, _jobs(experiment, chosen, None), experiment.cluster),
        "jobs": [job_document(job) for job in done.jobs],
    }


def _jobs(experiment: Experiment, chosen: Policy, estimator: Estimator | None) -> list[Submission]:
    return submissions(
        experiment.workload,
        experiment.applications,
        experiment.cluster,
        chosen.job_kind,
        forced=experiment.kind,
        in_place_seconds=_in_place(experiment, chosen),
        estimator=estimator,
    )


def _policy(experiment: Experiment) -> Policy:
    if experiment.variant is not None:
        return experiment.variant
    chosen = policy(experiment.policy)
    if isinstance(chosen, Heet) and experiment.in_place_seconds is None:
        return Heet(RESTARTS)
    return chosen


def _in_place(experiment: Experiment, chosen: Policy) -> float | None:
    """Return the pause of a change in place; None where the policy's own system restarts jobs."""
    return experiment.in_place_seconds if chosen.in_place else None


def run_all(
    experiments: Sequence[Experiment],
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number of the experiment, its JSON) as they end; the outcome is that of one process.

    Args:
        experiments: what to run.
        processes: how many run side by side; 1: in this process, in order.
        progress: called with the number of jobs that have ended, and of all jobs of all runs.
    """
    total = sum(len(experiment.workload.requests) for experiment in experiments)
    before = 0

    def tell(ended: int, now: float = 0.0) -> None:
        if progress is not None:
            progress(before + ended, total)

    if processes <= 1 or len(experiments) <= 1:
        for number, experiment in enumerate(experiments):
            yield number, run(experiment, tell)
            before += len(experiment.workload.requests)
        return
    spawn = multiprocessing.get_context("spawn")  # a forked child would have this one's threads
    with ProcessPoolExecutor(min(processes, len(experiments)), mp_context=spawn) as pool:
        numbers = {pool.submit(run, item): number for number, item in enumerate(experiments)}
        try:
            for future in as_completed(numbers):
                before += len(experiments[numbers[future]].workload.requests)
                tell(0)
                yield numbers[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
