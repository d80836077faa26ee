"""What any policy must do, over many seeded views."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np

from staves.scheduling import Counts, Decision, JobView, Policy, View
from staves.testing._views import Scaling, random_view


class PolicyConformance(ABC):
    """Derive from it, return the policy, and let the test runner find the cases.

    Attributes:
        seeds: of the random views.
        work_conserving: whether the policy leaves no device idle that a waiting job could use.
    """

    seeds: ClassVar[Iterable[int]] = range(60)
    work_conserving: ClassVar[bool] = True

    @abstractmethod
    def policy(self) -> Policy:
        """Return a new policy."""

    def views(self) -> Iterator[View]:
        """Yield the views that every case looks at."""
        return map(random_view, self.seeds)

    def test_decisions_keep_to_the_view(self) -> None:
        """No device is given twice; minimum, maximum, types, mix, pinned and guaranteed hold."""
        for view in self.views():
            check(view, self.policy().decide(view))

    def test_the_same_view_gives_the_same_decision(self) -> None:
        """Policies keep nothing that the view does not say."""
        kept = self.policy()
        for view in self.views():
            first = kept.decide(view)
            assert first.chosen == kept.decide(view).chosen == self.policy().decide(view).chosen

    def test_every_job_gets_a_reason(self) -> None:
        """Those that wait, too; and what is chosen is what the reason says."""
        for view in self.views():
            decision = self.policy().decide(view)
            for job in view.jobs:
                reason = decision.reasons[job.id]
                assert reason.text
                option = reason.chosen
                assert (option.counts if option else None) == decision.chosen.get(job.id)

    def test_nothing_idles_that_a_waiting_job_could_use(self) -> None:
        """Neither at the job's minimum, nor at any size between it and the maximum."""
        if not self.work_conserving:
            return
        for view in self.views():
            decision = self.policy().decide(view)
            free = _free(view, decision)
            for job in view.jobs:
                if job.id not in decision.chosen:
                    startable = _smallest(job, free)
                    assert startable is None, f"{job.id} could start on {startable}"

    def test_an_empty_cluster(self) -> None:
        """Without devices nobody has any."""
        for view in self.views():
            none = tuple(0 for _ in view.types)
            jobs = tuple(replace(job, current=None) for job in view.jobs)
            empty = replace(view, capacity=none, nodes=(), jobs=jobs)
            assert not self.policy().decide(empty).chosen

    def test_no_jobs(self) -> None:
        """Without jobs there is nothing to decide."""
        for view in self.views():
            assert not self.policy().decide(replace(view, jobs=())).chosen

    def test_a_type_that_vanished(self) -> None:
        """Jobs may hold devices that are gone: these are not given out again."""
        for view in self.views():
            for g in range(len(view.types)):
                capacity = tuple(0 if h == g else n for h, n in enumerate(view.capacity))
                nodes = tuple(
                    tuple(0 if h == g else n for h, n in enumerate(node)) for node in view.nodes
                )
                gone = replace(view, capacity=capacity, nodes=nodes)
                check(gone, self.policy().decide(gone))

    def test_a_job_that_no_cluster_can_hold(self) -> None:
        """It waits with a reason, and nobody waits for it."""
        for view in self.views():
            size = sum(view.capacity) + 1
            rates = Scaling((1.0,) * len(view.types))
            giant = JobView("giant", -1.0, rates, 10.0, minimum=size, maximum=size)
            with_it = self.policy().decide(replace(view, jobs=(giant, *view.jobs)))
            assert "giant" not in with_it.chosen
            assert with_it.reasons["giant"].text
            assert with_it.chosen.keys() == self.policy().decide(view).chosen.keys()


def check(view: View, decision: Decision) -> None:
    """Assert that a decision keeps to the contract of `Policy.decide`."""
    jobs = {job.id: job for job in view.jobs}
    assert decision.chosen.keys() <= jobs.keys()
    used = np.zeros(len(view.types), dtype=np.int64)
    left = np.array(view.capacity)
    for job in view.jobs:
        counts = decision.chosen.get(job.id)
        if job.pinned:
            assert counts == job.current, f"{job.id} is pinned"
            left = left - np.array(job.current)
        elif counts is not None:
            assert _may_have(job, counts), f"{job.id} must not have {counts}"
            used = used + np.array(counts)
    assert (used <= np.maximum(left, 0)).all(), f"{used} of {left} are given out"
    if _together(view):
        for job in view.jobs:
            if job.current is not None and job.guaranteed:
                counts = decision.chosen.get(job.id, (0,) * len(view.types))
                kept = sum(map(min, counts, job.current))
                assert kept >= min(job.guaranteed, sum(job.current)), f"{job.id} is guaranteed"
    if decision.value is not None and decision.bound is not None:
        assert decision.value <= decision.bound * (1 + 1e-9)


def _may_have(job: JobView, counts: Counts) -> bool:
    used = [g for g, n in enumerate(counts) if n]
    return (
        all(n >= 0 for n in counts)
        and job.minimum <= sum(counts) <= job.maximum
        and (job.types is None or set(used) <= job.types)
        and (job.mix or len(used) == 1)
    )


def _together(view: View) -> bool:
    """Return whether everything that jobs hold is still there."""
    held = [job.current for job in view.jobs if job.current is not None]
    return (
        all(sum(n) <= top for n, top in zip(zip(*held, strict=True), view.capacity, strict=True))
        if held
        else True
    )


def _free(view: View, decision: Decision) -> Counts:
    used = [decision.chosen[job.id] for job in view.jobs if job.id in decision.chosen]
    taken = np.sum(used, axis=0, dtype=np.int64) if used else 0
    return tuple(np.maximum(np.array(view.capacity) - taken, 0).tolist())


def _smallest(job: JobView, free: Counts) -> Counts | None:
    """Return a configuration at the job's minimum that runs it on free devices; None: none."""
    for counts in itertools.product(*(range(min(n, job.minimum) + 1) for n in free)):
        fits = sum(counts) == job.minimum and _may_have(job, counts)
        if fits and job.rates(np.array([counts]))[0] > 0:
            return counts
    return None
