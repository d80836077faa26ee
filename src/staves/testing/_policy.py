"""What any policy must do, over many seeded views."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np

from staves.scheduling import Counts, Decision, JobView, Policy, Reason, View, decision_of
from staves.scheduling._configurations import allowed
from staves.scheduling._quotas import room
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
        """Yield the views that every case looks at: with quotas, if the policy honours them."""
        quotas = self.policy().quotas
        return (random_view(seed, quotas=quotas) for seed in self.seeds)

    def test_decisions_keep_to_the_view(self) -> None:
        """No device is given twice; what jobs may have, must keep and share in a quota holds."""

        def case(view: View) -> None:
            decision_of(self.policy(), view)

        self._over_all(case)

    def test_the_same_view_gives_the_same_decision(self) -> None:
        """Policies keep nothing that the view does not say."""
        kept = self.policy()

        def case(view: View) -> None:
            first = kept.decide(view)
            assert first.chosen == kept.decide(view).chosen, "the same object decides otherwise"
            assert first.chosen == self.policy().decide(view).chosen, "a new one decides otherwise"

        self._over_all(case)

    def test_every_job_gets_a_reason(self) -> None:
        """Those that wait, too; and what is chosen is what the reason says."""

        def case(view: View) -> None:
            decision = self.policy().decide(view)
            for job in view.jobs:
                reason = decision.reasons.get(job.id)
                assert isinstance(reason, Reason), f"reasons[{job.id!r}] is {reason!r}, no Reason"
                assert reason.text, f"reasons[{job.id!r}] has no text"
                told = reason.chosen.counts if reason.chosen else None
                has = decision.chosen.get(job.id)
                assert told == has, f"{job.id} has {has}, and its reason says {told}"

        self._over_all(case)

    def test_nothing_idles_that_a_waiting_job_could_use(self) -> None:
        """Neither at the job's minimum, nor at any size between it and the maximum."""

        def case(view: View) -> None:
            decision = decision_of(self.policy(), view)
            free, rooms = _free(view, decision), room(view, decision.chosen)
            for job in view.jobs:
                if job.minimum > rooms.get(job.tenant, job.minimum):
                    continue  # its tenant's quota does not let it start
                if job.id not in decision.chosen:
                    startable = _smallest(job, free)
                    assert startable is None, f"{job.id} could start on {startable}"

        if self.work_conserving:
            self._over_all(case)

    def test_an_empty_cluster(self) -> None:
        """Without devices nobody has any."""

        def case(view: View) -> None:
            none = tuple(0 for _ in view.types)
            jobs = tuple(replace(job, current=None) for job in view.jobs)
            empty = replace(view, capacity=none, nodes=(), jobs=jobs)
            chosen = self.policy().decide(empty).chosen
            assert not chosen, f"of no devices at all it gave {chosen}"

        self._over_all(case)

    def test_no_jobs(self) -> None:
        """Without jobs there is nothing to decide."""

        def case(view: View) -> None:
            chosen = self.policy().decide(replace(view, jobs=())).chosen
            assert not chosen, f"without jobs it gave {chosen}"

        self._over_all(case)

    def test_a_type_that_vanished(self) -> None:
        """Jobs may hold devices that are gone: these are not given out again."""

        def case(view: View) -> None:
            for g in range(len(view.types)):
                capacity = tuple(0 if h == g else n for h, n in enumerate(view.capacity))
                nodes = tuple(
                    tuple(0 if h == g else n for h, n in enumerate(node)) for node in view.nodes
                )
                decision_of(self.policy(), replace(view, capacity=capacity, nodes=nodes))

        self._over_all(case)

    def test_a_job_that_no_cluster_can_hold(self) -> None:
        """It waits with a reason, and nobody waits for it."""

        def case(view: View) -> None:
            size = sum(view.capacity) + 1
            rates = Scaling((1.0,) * len(view.types))
            giant = JobView("giant", -1.0, rates, 10.0, minimum=size, maximum=size)
            with_it = self.policy().decide(replace(view, jobs=(giant, *view.jobs)))
            without = self.policy().decide(view).chosen
            assert "giant" not in with_it.chosen
            assert "giant" in with_it.reasons, "reasons['giant'] is missing"
            assert with_it.reasons["giant"].text
            assert with_it.chosen.keys() == without.keys(), "others wait for it"

        self._over_all(case)

    def _over_all(self, case: Callable[[View], None]) -> None:
        for number, view in enumerate(self.views()):
            try:
                case(view)
            except Exception as error:
                error.add_note(f"on view {number} of `views()`{self._seeded(number)}")
                raise

    def _seeded(self, number: int) -> str:
        if type(self).views is not PolicyConformance.views:
            return ""
        seed = next(itertools.islice(self.seeds, number, None))
        quotas = ", quotas=True" if self.policy().quotas else ""
        return f": staves.testing.random_view({seed}{quotas})"


def _free(view: View, decision: Decision) -> Counts:
    used = [decision.chosen[job.id] for job in view.jobs if job.id in decision.chosen]
    taken = np.sum(used, axis=0, dtype=np.int64) if used else 0
    return tuple(np.maximum(np.array(view.capacity) - taken, 0).tolist())


def _smallest(job: JobView, free: Counts) -> Counts | None:
    """Return a configuration at the job's minimum that runs it on free devices; None: none."""
    for counts in itertools.product(*(range(min(n, job.minimum) + 1) for n in free)):
        fits = sum(counts) == job.minimum and allowed(job, counts)
        if fits and job.rates(np.array([counts]))[0] > 0:
            return counts
    return None
