"""One decision on a synthetic cluster: how long it takes, and how good it is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from staves.errors import InputError
from staves.scheduling import Counts, Decision, JobView, View, policy
from staves.simulation._profile_work import ApplicationRates
from staves.simulation._synthetic import synthetic_applications

_Kinds = tuple[tuple[str, int, float], ...]  # name, devices of a node, share of all devices

_THREE: _Kinds = (("a100", 8, 0.25), ("rtx2080ti", 8, 0.375), ("t4", 4, 0.375))
_SIX: _Kinds = (
    ("a100", 8, 0.125),
    ("v100", 8, 0.125),
    ("rtx6000", 8, 0.125),
    ("a10", 4, 0.125),
    ("rtx2080ti", 8, 0.25),
    ("t4", 4, 0.25),
)
_LARGE = 1000  # devices from which a cluster is of six types
_REPEATS = 5


@dataclass(frozen=True)
class Timed:
    """A decision and what it took.

    Args:
        decision: what was decided.
        seconds: median of five after a warm-up, configurations and utilities included.
        view: what was decided about.
    """

    decision: Decision
    seconds: float
    view: View

    @property
    def gap(self) -> float | None:
        """1 - value / bound; None where the policy tells no bound."""
        value, bound = self.decision.value, self.decision.bound
        return None if value is None or not bound else 1 - value / bound

    def to_document(self) -> dict[str, float | None]:
        """Return the figures as JSON."""
        return {
            "decision_seconds": self.seconds,
            "value": self.decision.value,
            "bound": self.decision.bound,
            "gap": self.gap,
        }

    @property
    def instance(self) -> dict[str, Any]:
        """The problem that was solved, as JSON.

        Raises:
            InputError: the policy weighs no configurations.
        """
        if not self.decision.weighed:
            raise InputError("the policy weighs no configurations", hint="--dump is for heet, sia")
        jobs = []
        for job in self.view.jobs:
            weighed = self.decision.weighed.get(job.id)
            rows = [] if weighed is None else weighed[0].tolist()
            utility = [] if weighed is None else weighed[1].tolist()
            chosen = self.decision.chosen.get(job.id)
            index = None if chosen is None else rows.index(list(chosen))
            jobs.append({"configurations": rows, "utility": utility, "chosen": index})
        return {"types": self.view.types, "capacity": self.view.capacity, "jobs": jobs}


def decide_only(name: str, jobs: int, devices: int, seed: int = 0) -> Timed:
    """Time one decision of the policy `name`.

    Raises:
        InputError: there is no such policy.
    """
    chosen = policy(name)
    seen = synthetic_view(jobs, devices, seed)
    decision = chosen.decide(seen)
    seconds = []
    for _ in range(_REPEATS):
        before = time.perf_counter()
        decision = chosen.decide(seen)
        seconds.append(time.perf_counter() - before)
    return Timed(decision, median(seconds), seen)


def synthetic_view(jobs: int, devices: int, seed: int = 0) -> View:
    """Return a view of `jobs` synthetic jobs, half of which run.

    The devices are of three types, and of six from 1,000 on.
    """
    draw = np.random.default_rng([seed, jobs, devices])
    kinds = _THREE if devices < _LARGE else _SIX
    capacity, nodes = _cluster(devices, kinds)
    types = tuple(name for name, _, _ in kinds)
    sizes = [size for _, size, _ in kinds]
    applications = synthetic_applications(types)
    rates = {name: ApplicationRates(one, types, sizes) for name, one in applications.items()}
    names = draw.choice(sorted(rates), jobs)
    free = list(capacity)
    seen = []
    for index, name in enumerate(names.tolist()):
        shared = rates[name]
        epoch = int(draw.integers(len(shared.marks)))
        done = 0.0 if epoch == 0 else shared.marks[epoch - 1]
        pause = applications[name].pause_seconds
        job = JobView(
            f"job-{index}",
            float(index),
            shared.epoch(epoch),
            remaining=shared.marks[-1] - done,
            maximum=16,
            waiting=float(draw.uniform(0, 3600)),
            start_pause=pause,
            resize_pause=5.0,
            application=name,
            requested=int(draw.choice([1, 2, 4, 8])),
            scale_limit=16,
            progress=done,
        )
        if draw.random() < 0.5:
            job = _running(job, draw, free)
        seen.append(job)
    return View(float(jobs), types, capacity, nodes, tuple(seen))


def _running(job: JobView, draw: np.random.Generator, free: list[int]) -> JobView:
    """Return the job with devices of one type, where some are left."""
    g, count = int(draw.integers(len(free))), int(draw.choice([1, 2, 4]))
    if free[g] < count:
        return job
    free[g] -= count
    current = tuple(count if h == g else 0 for h in range(len(free)))
    return replace(job, current=current, waiting=0.0, age=600.0, attained=600.0 * count)


def _cluster(devices: int, kinds: _Kinds) -> tuple[Counts, tuple[Counts, ...]]:
    counts = [int(devices * share) for _, _, share in kinds]
    counts[-1] += devices - sum(counts)
    nodes: list[Counts] = []
    for g, (count, (_, size, _)) in enumerate(zip(counts, kinds, strict=True)):
        parts = [size] * (count // size) + ([count % size] if count % size else [])
        nodes += [_single(len(counts), g, part) for part in parts]
    return tuple(counts), tuple(nodes)


def _single(types: int, g: int, count: int) -> Counts:
    row: Sequence[int] = [count if h == g else 0 for h in range(types)]
    return tuple(row)
