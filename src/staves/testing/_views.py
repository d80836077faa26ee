"""Random views, seeded: small clusters of unlike nodes, and jobs of every kind."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from staves.scheduling import Counts, JobView, View


@dataclass(frozen=True)
class Scaling:
    """Rates that grow by less than the devices do, and may even fall.

    Args:
        speed: one device's rate by type; 0 where the job does not run.
        loss: share that every further device costs.
        smallest: devices below which it does not run at all.
    """

    speed: tuple[float, ...]
    loss: float = 0.0
    smallest: int = 1

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the rates of configurations (C, G), shape (C,)."""
        devices = configurations.sum(axis=1)
        speed = np.array(self.speed)
        runs = (devices >= self.smallest) & ~(configurations[:, speed == 0] > 0).any(axis=1)
        rates: NDArray[np.float64] = np.where(
            runs, (configurations @ speed) / (1 + self.loss * np.maximum(devices - 1, 0)), 0.0
        )
        return rates


_TENANTS = ("", "ann", "bob", "cyd")


def random_view(seed: int, *, quotas: bool = False) -> View:
    """Return a view of up to 4 types, 6 nodes and 8 jobs, some of which run.

    Running jobs fit together. Jobs differ in size, types, mix, elasticity, guarantees, pauses and
    in whether their work is known.

    Args:
        seed: of all that is drawn.
        quotas: whether jobs have tenants, and some of these quotas, which may be below what they
            have; all else stays as without.
    """
    rng = np.random.default_rng(seed)
    types = int(rng.integers(1, 5))
    nodes = tuple(
        tuple((rng.integers(0, 4, types) * (rng.random(types) < 0.6)).tolist())
        for _ in range(int(rng.integers(1, 7)))
    )
    capacity: Counts = tuple(int(sum(node[g] for node in nodes)) for g in range(types))
    jobs = [_job(rng, f"job-{i}", types) for i in range(int(rng.integers(0, 9)))]
    free = np.array(capacity)
    for i, job in enumerate(jobs):
        counts = _some(rng, job, free)
        if counts is not None and rng.random() < 0.6:
            free = free - np.array(counts)
            jobs[i] = replace(
                job, current=counts, waiting=0.0, pause_left=rng.choice([0.0, 3.0, 650.0])
            )
    names = tuple(f"type-{g}" for g in range(types))
    view = View(1000.0, names, capacity, nodes, tuple(jobs))
    return _with_quotas(np.random.default_rng([seed, 1]), view) if quotas else view


def _with_quotas(rng: np.random.Generator, view: View) -> View:
    jobs = tuple(replace(job, tenant=str(rng.choice(_TENANTS))) for job in view.jobs)
    most = sum(view.capacity) // 2 + 2
    told = {name: int(rng.integers(0, most)) for name in _TENANTS[1:] if rng.random() < 0.7}
    return replace(view, jobs=jobs, quotas=told)


def _job(rng: np.random.Generator, name: str, types: int) -> JobView:
    minimum = int(rng.choice([1, 1, 1, 2, 3]))
    speed = 10 ** rng.uniform(0, 1, types)
    if rng.random() < 0.2:
        speed[rng.integers(types)] = 0.0
    allowed = None
    if rng.random() < 0.3:
        allowed = frozenset(rng.choice(types, int(rng.integers(1, types + 1))).tolist())
    submitted = float(rng.uniform(0, 1000))
    return JobView(
        name,
        submitted,
        Scaling(tuple(speed.tolist()), float(rng.choice([0.0, 0.05, 0.2, 1.5]))),
        remaining=math.inf if rng.random() < 0.2 else float(10 ** rng.uniform(0, 6)),
        minimum=minimum,
        maximum=minimum + int(rng.integers(0, 7)),
        types=allowed,
        mix=bool(rng.random() < 0.6),
        weight=float(rng.choice([0.5, 1.0, 2.0])),
        elastic=bool(rng.random() < 0.8),
        guaranteed=int(rng.choice([0, 0, 1, 2])),
        attained=float(rng.uniform(0, 1e4)),
        waiting=1000 - submitted,
        start_pause=float(rng.choice([0.0, 5.0, 60.0])),
        resize_pause=float(rng.choice([0.0, 1.0, 30.0])),
        resize_delay=float(rng.choice([0.0, 5.0])),
    )


def _some(rng: np.random.Generator, job: JobView, free: NDArray[np.int64]) -> Counts | None:
    """Return devices that the job may have and that run it, out of those free; or None."""
    size = int(rng.integers(job.minimum, job.maximum + 1))
    allowed = [g for g in range(len(free)) if job.types is None or g in job.types]
    if not job.mix:
        allowed = [int(rng.choice(allowed))]
    pool = [g for g in allowed for _ in range(int(free[g]))]
    if len(pool) < size:
        return None
    picked = rng.choice(pool, size, replace=False)
    counts = np.bincount(picked, minlength=len(free))
    return tuple(counts.tolist()) if job.rates(counts[None])[0] > 0 else None
