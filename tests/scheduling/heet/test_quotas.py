"""Quotas: one more row each of the programme, against an integer programme that has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from staves.scheduling import Counts, Decision, Heet, JobView, View, decision_of
from staves.scheduling._configurations import every, unpinned
from staves.scheduling.heet._configurations import MOST
from staves.testing import Scaling, random_view
from tests.scheduling.heet.envy import nobody_is_envious
from tests.scheduling.heet.test_configurations import large, with_quotas

seeds = st.integers(0, 2**32 - 1)
RATES = Scaling((1.0,))


def devices(view: View, chosen: Mapping[str, Counts], tenant: str) -> int:
    return sum(sum(chosen.get(job.id, ())) for job in view.jobs if job.tenant == tenant)


def optimum(view: View, decision: Decision) -> float:
    """The greatest sum of the utilities that were weighed, within the types and the quotas."""
    rows = [
        (number, counts, utility)
        for number, job in enumerate(view.jobs)
        if job.id in decision.weighed
        for counts, utility in zip(*decision.weighed[job.id], strict=True)
    ]
    if not rows:
        return 0.0
    tables = [
        [[float(number == j) for number, _, _ in rows] for j in range(len(view.jobs))],
        np.array([counts for _, counts, _ in rows]).T.tolist(),
    ]
    most = [1.0] * len(view.jobs) + list(map(float, unpinned(view)))
    for tenant, quota in view.quotas.items():
        tables.append(
            [
                [
                    float(counts.sum() * (view.jobs[number].tenant == tenant))
                    for number, counts, _ in rows
                ]
            ]
        )
        kept = sum(sum(j.current or ()) for j in view.jobs if j.pinned and j.tenant == tenant)
        most.append(float(max(quota - kept, 0)))
    found = milp(
        [-utility for _, _, utility in rows],
        integrality=np.ones(len(rows), dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(np.concatenate(tables), -np.inf, most),
    )
    assert found.fun is not None
    return -float(found.fun)


def unguaranteed(seed: int) -> View:
    view = random_view(seed, quotas=True)
    return replace(view, jobs=tuple(replace(job, guaranteed=0) for job in view.jobs))


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_the_decision_is_that_of_an_integer_programme_with_a_row_for_each_quota(seed: int) -> None:
    view = unguaranteed(seed)
    decision = decision_of(Heet(), view)
    assert decision.value == pytest.approx(optimum(view, decision), rel=1e-7, abs=1e-12)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_all_that_a_job_may_have_within_its_quota_is_weighed(seed: int) -> None:
    view = unguaranteed(seed)
    decision = Heet().decide(view)
    for job in view.jobs:
        table = every(job, unpinned(view), 10_000)
        if job.pinned or table is None or len(table) > MOST:
            continue
        kept = [
            sum(other.current or ())
            for other in view.jobs
            if other.pinned and other.tenant == job.tenant
        ]
        quota = view.quotas.get(job.tenant)
        most = np.inf if quota is None else quota - sum(kept)
        runs = table[(job.rates(table) > 0) & (table.sum(axis=1) <= most)]
        weighed = decision.weighed[job.id][0].tolist()
        assert sorted(runs.tolist()) == sorted(weighed)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_prices_and_trades_keep_to_quotas_and_within_their_bound(seed: int) -> None:
    view = unguaranteed(seed)
    exact, traded = Heet().decide(view), decision_of(Heet(exact=False), view)
    assert exact.value is not None
    assert traded.value is not None
    assert traded.bound is not None
    assert traded.value <= exact.value * (1 + 1e-7) <= traded.bound * (1 + 2e-7)


@given(seeds)
@settings(max_examples=4, deadline=None)
def test_many_jobs_of_many_tenants_keep_to_quotas_and_near_their_bound(seed: int) -> None:
    view = large(seed, most_jobs=150)
    jobs = tuple(replace(job, current=None, guaranteed=0, elastic=True) for job in view.jobs)
    view = with_quotas(replace(view, jobs=jobs), seed)
    decision = decision_of(Heet(), view)
    assert decision.value is not None
    assert decision.bound is not None
    assert decision.value >= 0.95 * decision.bound
    for tenant, quota in view.quotas.items():
        assert devices(view, decision.chosen, tenant) <= quota


@pytest.mark.parametrize("exact", [True, False])
@given(seeds)
@settings(max_examples=150, deadline=None)
def test_a_quota_below_what_is_guaranteed_takes_none_of_it_and_gives_nothing_more(
    exact: bool, seed: int
) -> None:
    view = random_view(seed, quotas=True)
    decision = decision_of(Heet(exact=exact), view)  # nothing guaranteed is taken
    for tenant, quota in view.quotas.items():
        ours = [job for job in view.jobs if job.tenant == tenant]
        least = 0
        for job in ours:
            if job.current is not None and (job.pinned or job.guaranteed):
                held = sum(job.current)
                least += held if job.pinned else max(job.minimum, min(job.guaranteed, held))
        assert devices(view, decision.chosen, tenant) <= max(quota, least)
        if least >= quota:
            for job in ours:
                assert job.id not in decision.chosen or job.current is not None


def test_without_a_quota_that_can_be_exceeded_nothing_changes() -> None:
    for seed in range(30):
        plain = random_view(seed)
        wide = replace(random_view(seed, quotas=True), quotas={"ann": 99, "nobody": 0})
        one, other = Heet().decide(plain), Heet().decide(wide)
        assert one.chosen == other.chosen
        assert one.value == other.value
        assert one.bound == other.bound


def told(*jobs: JobView, quota: int, capacity: int = 8) -> Any:
    view = View(0.0, ("a",), (capacity,), ((capacity,),), jobs, {"ann": quota})
    return decision_of(Heet(), view).reasons


def job(name: str, **fields: Any) -> JobView:
    return JobView(name, 0.0, RATES, 1e4, **{"tenant": "ann", **fields})


def test_reasons_say_when_the_quota_is_why() -> None:
    reasons = told(job("one"), job("two"), quota=1)
    (waits,) = (reason for reason in reasons.values() if reason.chosen is None)
    assert "It waits: its tenant, ann, uses 1 of its quota of 1;" in waits.text
    assert waits.alternatives[0].price > 0, "what the other job of the tenant would give"
    wide = told(job("wide", maximum=6), quota=4)["wide"].text
    assert "faster: the quota of its tenant, ann, leaves it 4 at most." in wide
    large = told(job("large", minimum=3, maximum=3), quota=2)["large"].text
    assert large == "It needs 3 devices, and the quota of its tenant, ann, leaves it 2 at most."
    none = told(job("one"), quota=0)["one"].text
    assert none == "It needs 1 device, and the quota of its tenant, ann, leaves it none."


def test_reasons_do_not_blame_a_quota_for_devices_that_are_not_there() -> None:
    short = told(job("large", minimum=9, maximum=9), quota=2)["large"].text
    assert "quota" not in short
    rivals = told(job("one", tenant="bob"), job("two", tenant="bob"), quota=1, capacity=1)
    assert not any("quota" in reason.text for reason in rivals.values())


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_nobody_would_rather_have_another_option_at_its_price(seed: int) -> None:
    """Prices include what other jobs of the tenant would give for a part of its quota."""
    view = unguaranteed(seed)
    assume(view.quotas)
    nobody_is_envious(view)
