from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.scheduling import Counts, Heet, JobView, Policy, View
from staves.scheduling.heet._configurations import MOST, configurations
from staves.testing import PolicyConformance, Scaling

seeds = st.integers(0, 2**32 - 1)


def large(seed: int, *, most_jobs: int = 12) -> View:
    """A cluster too large for all configurations."""
    rng = np.random.default_rng(seed)
    types = int(rng.integers(2, 7))
    nodes = []
    for g in range(types):
        size = int(rng.choice([1, 2, 4, 8]))
        for _ in range(int(rng.integers(0, 120 // size))):
            nodes.append(tuple(size if h == g else 0 for h in range(types)))
    capacity = tuple(sum(node[g] for node in nodes) for g in range(types))
    free = np.array(capacity)
    jobs = []
    for i in range(int(rng.integers(1, most_jobs))):
        minimum = int(rng.choice([1, 1, 3, 17]))
        maximum = minimum + int(rng.choice([0, 5, 300]))
        mix = bool(rng.random() < 0.7)
        counts: Counts | None = None
        allowed = frozenset({0, types - 1}) if rng.random() < 0.2 else None
        g = int(rng.choice(sorted(allowed or range(types))))
        size = min(int(free[g]), maximum)
        if rng.random() < 0.5 and size >= minimum:
            counts = tuple(size if h == g else 0 for h in range(types))
            free[g] -= size
        speeds = tuple((10 ** rng.uniform(0, 1, types)).tolist())
        jobs.append(
            JobView(
                f"job-{i}",
                0.0,
                Scaling(speeds, float(rng.choice([0.0, 0.05]))),
                float(10 ** rng.uniform(2, 6)),
                minimum=minimum,
                maximum=maximum,
                types=allowed,
                mix=mix,
                elastic=bool(rng.random() < 0.9),
                current=counts,
                guaranteed=int(rng.choice([0, 2])),
            )
        )
    return View(0.0, tuple(f"t{g}" for g in range(types)), capacity, tuple(nodes), tuple(jobs))


def with_quotas(view: View, seed: int) -> View:
    """The same with tenants for its jobs, most of which have a quota."""
    rng = np.random.default_rng([seed, 1])
    jobs = tuple(replace(job, tenant=f"t{rng.integers(6)}") for job in view.jobs)
    some = sum(view.capacity) // 4
    quotas = {f"t{n}": int(rng.integers(0, some + 1)) for n in range(5)}
    return replace(view, jobs=jobs, quotas=quotas)


class TestHeetOnLargeClusters(PolicyConformance):
    seeds: ClassVar[Iterable[int]] = range(25)

    def views(self) -> Iterator[View]:
        return map(large, self.seeds)

    def policy(self) -> Policy:
        return Heet()


class TestHeetOnManyJobs(TestHeetOnLargeClusters):
    """Too many for one exact decision."""

    seeds: ClassVar[Iterable[int]] = (5, 17, 22)

    def views(self) -> Iterator[View]:
        return (large(seed, most_jobs=400) for seed in self.seeds)


class TestHeetWithQuotasOnLargeClusters(TestHeetOnLargeClusters):
    def views(self) -> Iterator[View]:
        return (with_quotas(large(seed), seed) for seed in self.seeds)


class TestHeetWithQuotasOnManyJobs(TestHeetOnManyJobs):
    def views(self) -> Iterator[View]:
        return (with_quotas(large(seed, most_jobs=400), seed) for seed in self.seeds)


@given(seeds)
@settings(max_examples=60)
def test_bounded_sets_hold_what_matters(seed: int) -> None:
    view = large(seed)
    free = tuple(max(0, n - 3) for n in view.capacity)
    sizes = [frozenset(node[g] for node in view.nodes) - {0} for g in range(len(view.types))]
    for job in view.jobs:
        table = configurations(job, view.capacity, free, sizes)
        rows = list(map(tuple, table.tolist()))
        assert len(rows) == len(set(rows)) <= MOST
        total = table.sum(axis=1)
        assert (total >= job.minimum).all()
        assert (total <= job.maximum).all()
        assert (table <= np.array(view.capacity)).all()
        if job.current is not None:
            assert job.current in rows
        if job.guaranteed and job.current is not None:
            continue  # some of the following would take guaranteed devices
        for g, n in enumerate(view.capacity):
            if job.types is None or g in job.types:
                for count in {job.minimum, min(n, job.maximum)}:
                    if job.minimum <= count <= n:
                        row = tuple(count if h == g else 0 for h in range(len(view.types)))
                        assert row in rows


@pytest.mark.parametrize("seed", range(10))
def test_a_lone_job_on_a_large_cluster_comes_near_its_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speeds = tuple((10 ** rng.uniform(0, 1, 3)).tolist())
    job = JobView("j", 0.0, Scaling(speeds, 0.01), 1e7, maximum=60)
    view = View(0.0, ("a", "b", "c"), (40, 40, 40), (((4, 4, 4),) * 10), (job,))
    chosen = Heet().decide(view).chosen["j"]
    every = np.array([(a, b, c) for a in range(41) for b in range(41) for c in range(41)])
    every = every[(every.sum(axis=1) <= 60) & (every.sum(axis=1) > 0)]
    assert job.rates(np.array([chosen]))[0] >= 0.99 * job.rates(every).max()


def test_what_no_weighed_configuration_uses_goes_to_those_that_wait() -> None:
    """One device of each type is free: two jobs share them out, but both weigh all of them."""
    types = 12

    def row(g: int, count: int) -> Counts:
        return tuple(count if h == g else 0 for h in range(types))

    rates = Scaling((1.0,) * types)
    holders = [
        JobView(
            f"held-{g}", 0.0, rates, 1e5, minimum=19, maximum=19, current=row(g, 19), guaranteed=19
        )
        for g in range(types)
    ]
    waiting = [JobView(name, 0.0, rates, 1e5, minimum=5, maximum=7) for name in ("x", "y")]
    names = tuple(f"t{g}" for g in range(types))
    view = View(0.0, names, (20,) * types, ((20,) * types,), (*holders, *waiting))
    decision = Heet().decide(view)
    assert sorted(sum(decision.chosen[name]) for name in ("x", "y")) == [5, 7]
    assert decision.value is not None
    assert decision.bound is not None
    assert decision.value <= decision.bound
    reason = decision.reasons["y"]
    assert reason.chosen is not None
    assert reason.chosen.counts == decision.chosen["y"]
