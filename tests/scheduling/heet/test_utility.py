from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from staves.scheduling import Counts, Doubt, Heet, JobView, View
from staves.scheduling._configurations import as_table, every, unpinned
from staves.scheduling.heet._utility import Weights, remaining_seconds, weigh
from staves.testing import Scaling, random_view

seeds = st.integers(0, 2**32 - 1)


def rate(job: JobView, counts: Counts) -> float:
    return float(job.rates(np.array([counts], dtype=np.int64))[0])


def transcribed(view: View, tables: Sequence[Sequence[Counts]]) -> list[list[float]]:
    """The utility as it is written down, one number at a time.

    Every configuration in `tables` runs its job, and every job's work is known.
    """
    types = range(len(view.types))

    def one(g: int) -> Counts:
        return tuple(int(h == g) for h in types)

    pi = []
    for g in types:
        shares = [
            rate(job, one(g)) / max(rate(job, one(h)) for h in types)
            for job, configurations in zip(view.jobs, tables, strict=True)
            if configurations and rate(job, one(g)) > 0
        ]
        pi.append(statistics.median(shares) if shares else 1.0)
    cluster = sum(p * n for p, n in zip(pi, view.capacity, strict=True))
    able = [job for job, configurations in zip(view.jobs, tables, strict=True) if configurations]
    pauses = [
        pause for job in able for pause in (job.start_pause, job.resize_pause + job.resize_delay)
    ]
    horizon = max([600.0, *(2 * pause for pause in pauses)])

    paths, works = [], []
    for job, configurations in zip(view.jobs, tables, strict=True):
        remaining = {c: job.remaining / rate(job, c) for c in configurations}
        paths.append(max(1.0, min(remaining.values(), default=0.0)))
        works.append(
            min(
                (
                    remaining[c] * sum(p * n for p, n in zip(pi, c, strict=True)) / cluster
                    for c in configurations
                ),
                default=0.0,
            )
        )
    result = []
    for j, job in enumerate(view.jobs):
        behind = sum(work > works[j] * (1 + 1e-12) for work in works)
        fastest = max((rate(job, c) for c in tables[j]), default=0.0)
        values = []
        for c in tables[j]:
            r = paths[j] * fastest / rate(job, c)
            if c == job.current:
                pen = job.pause_left
            elif job.current is not None:
                done = 0.0  # of the work that the delay would take on c
                if job.current in tables[j] and not job.pause_left:
                    done = min(rate(job, job.current) / rate(job, c), 1.0)
                pen = job.resize_pause + job.resize_delay * (1 - done)
            else:
                pen = job.start_pause
            if r + pen > horizon:
                x = max(horizon - pen, 0.02 * horizon) / horizon / r
            else:
                x = 1 / (r + pen)
            if c == job.current:
                x *= 1.03
            weight = job.weight * (1 + (job.waiting / 3600) ** 2)
            values.append(weight * (x * paths[j]) ** 0.8 * (1 + behind * works[j] / paths[j]))
        result.append(values)
    return result


@given(seeds)
@settings(max_examples=200)
def test_it_is_what_is_written_down(seed: int) -> None:
    view = random_view(seed)
    jobs = tuple(job for job in view.jobs if math.isfinite(job.remaining))
    view = View(view.now, view.types, view.capacity, view.nodes, jobs)
    tables = []
    for job in jobs:
        full = every(job, unpinned(view), 10_000)
        assert full is not None
        if job.pinned and job.current is not None:
            full = as_table([job.current], len(view.types))
        tables.append([c for c in map(tuple, full.tolist()) if rate(job, c) > 0])
    weighed = weigh(view, [as_table(t, len(view.types)) for t in tables], Weights())
    for item, table, expected in zip(weighed, tables, transcribed(view, tables), strict=True):
        assert list(map(tuple, item.table.tolist())) == table
        assert item.utility == pytest.approx(expected, rel=1e-9)
        assert (item.utility > 0).all()


@given(seeds)
@settings(max_examples=50)
def test_without_rank_a_job_counts_for_itself_only(seed: int) -> None:
    view = random_view(seed)
    tables = [every(job, unpinned(view), 1000) for job in view.jobs]
    weights = Weights(rank=0.0, horizon=1e6)  # no horizon that another's pauses could lengthen
    together = weigh(view, tables, weights)  # type: ignore[arg-type]
    for job, table, one in zip(view.jobs, tables, together, strict=True):
        assert table is not None
        alone = weigh(replace(view, jobs=(job,)), [table], weights)[0]
        assert alone.utility == pytest.approx(one.utility, rel=1e-12)


def test_unknown_work_lasts_as_long_again_and_ten_minutes_at_least() -> None:
    rates = Scaling((1.0, 2.0))
    table = np.array([[1, 0], [0, 1], [0, 2]])
    fresh = JobView("fresh", 0.0, rates, maximum=2)
    assert remaining_seconds(fresh, table, rates(table)) == pytest.approx([2400, 1200, 600])
    old = JobView("old", 0.0, rates, maximum=2, attained=10_000.0)
    assert remaining_seconds(old, table, rates(table)) == pytest.approx([20000, 10000, 5000])


def test_steps_of_a_fixed_batch_pass_at_one_speed() -> None:
    """300 steps, which take 0.5 s each now, though the reference samples say 1,000 s."""
    table = as_table([(1,)], 1)
    job = JobView("a", 0.0, lambda table: np.full(len(table), 4.0), remaining=4000.0)
    assert remaining_seconds(job, table, job.rates(table)) == pytest.approx([1000])
    fixed = replace(job, step_work=2.0, steps_left=300.0)
    assert remaining_seconds(fixed, table, job.rates(table)) == pytest.approx([150])


def test_jobs_of_unknown_work_rank_by_what_they_have_had() -> None:
    rates = Scaling((1.0,))
    jobs = tuple(
        JobView(f"j{i}", 0.0, rates, attained=attained)
        for i, attained in enumerate((5000.0, 2000.0, 9000.0))
    )
    view = View(0.0, ("a",), (1,), ((1,),), jobs)
    weighed = weigh(view, [np.array([[1]])] * 3, Weights())
    assert [item.behind for item in weighed] == [1, 2, 0]


@given(seeds)
def test_every_lists_each_permitted_configuration_once(seed: int) -> None:
    view = random_view(seed)
    for job in view.jobs:
        table = every(job, view.capacity, 10_000)
        assert table is not None
        listed = list(map(tuple, table.tolist()))
        expected = [
            counts
            for counts in itertools.product(*(range(n + 1) for n in view.capacity))
            if job.minimum <= sum(counts) <= job.maximum
            and (job.types is None or all(g in job.types for g, n in enumerate(counts) if n))
            and (job.mix or sum(n > 0 for n in counts) == 1)
        ]
        assert sorted(listed) == sorted(expected)


def test_meeting_a_deadline_counts_more_the_less_time_there_is_to_wait() -> None:
    """Of two jobs alike the one goes first whose deadline waiting would miss, or the earlier."""
    rates = Scaling((1.0,))

    def utility(*deadlines: float) -> list[float]:
        jobs = tuple(
            JobView(f"j{i}", 0.0, rates, 1000.0, deadline=deadline)
            for i, deadline in enumerate(deadlines)
        )
        view = View(0.0, ("a",), (1,), ((1,),), jobs)
        return [float(item.utility[0]) for item in weigh(view, [np.array([[1]])] * 4, Weights())]

    never, soon, sooner, late = utility(math.inf, 1300.0, 1000.0, 999.0)
    far, *_ = utility(1601.0, math.inf, math.inf, math.inf)
    assert never == late == far
    assert soon == pytest.approx(never * (1 + 3.0 / 2))
    assert sooner == pytest.approx(never * (1 + 3.0))


def test_only_what_meets_the_deadline_counts_more() -> None:
    table = np.array([[1], [2]])
    with_one = JobView("j", 0.0, Scaling((1.0,)), 1000.0, maximum=2, deadline=600.0)
    without = JobView("j", 0.0, Scaling((1.0,)), 1000.0, maximum=2)
    one, other = (
        weigh(View(0.0, ("a",), (2,), ((2,),), (job,)), [table], Weights())[0].utility
        for job in (with_one, without)
    )
    assert one[0] == other[0]
    assert one[1] > other[1] * 2


def doubts(view: View, seed: int) -> View:
    """The same, with how sure rates are: by types and devices, 0 for what a job has."""
    factors = np.random.default_rng(seed).uniform(0.0, 0.5, len(view.types))

    def doubt(job: JobView) -> Doubt:
        def log_std(table: NDArray[np.int64]) -> NDArray[np.float64]:
            had = (table == np.array(job.current or (-1,) * table.shape[1])).all(axis=1)
            stds: NDArray[np.float64] = np.where(had, 0.0, (table > 0) @ factors)
            return stds

        return log_std

    return replace(view, jobs=tuple(replace(job, log_std=doubt(job)) for job in view.jobs))


@given(seeds)
@settings(max_examples=60)
def test_with_caution_every_rate_counts_as_its_lower_bound(seed: int) -> None:
    """As if it were believed to be that: in utilities, and in decisions."""
    view = doubts(random_view(seed), seed)

    class Lower:
        def __init__(self, job: JobView) -> None:
            self.job = job

        def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
            assert self.job.log_std is not None
            rates: NDArray[np.float64] = self.job.rates(configurations) * np.exp(
                -0.7 * self.job.log_std(configurations)
            )
            return rates

    lower = tuple(replace(job, rates=Lower(job), log_std=None) for job in view.jobs)
    # Without rank: how fast types are beside each other is taken from what is believed, unbounded.
    tables = [every(job, unpinned(view), 10_000) for job in view.jobs]
    cautious, believed = (
        weigh(each, tables, Weights(caution=0.7, rank=0.0))  # type: ignore[arg-type]
        for each in (view, replace(view, jobs=lower))
    )
    for one, other, job in zip(cautious, believed, view.jobs, strict=True):
        assert one.utility == pytest.approx(other.utility, rel=1e-12)
        assert one.rates == pytest.approx(job.rates(one.table), rel=1e-12)
        assert one.counted == pytest.approx(other.rates, rel=1e-12)
    weights = Weights(caution=0.7, rank=0.0)
    decision, same = (Heet(weights).decide(each) for each in (view, replace(view, jobs=lower)))
    assert decision.value == pytest.approx(same.value, rel=1e-9)


def test_a_job_does_not_leave_what_it_knows_for_a_guess_that_is_hardly_better() -> None:
    def sure(table: NDArray[np.int64]) -> NDArray[np.float64]:
        stds: NDArray[np.float64] = np.where(table[:, 1] > 0, 0.5, 0.0)
        return stds

    job = JobView(
        "j", 0.0, Scaling((1.0, 1.3)), 1e4, current=(1, 0), log_std=sure, maximum=1, mix=False
    )
    view = View(0.0, ("known", "guess"), (1, 1), ((1, 1),), (job,))
    assert Heet(Weights(caution=0.0)).decide(view).chosen == {"j": (0, 1)}
    stays = Heet(Weights(caution=1.0)).decide(view)
    assert stays.chosen == {"j": (1, 0)}
    assert "1 guess would be 1.3 x as fast, but that is not sure enough." in stays.reasons["j"].text
    told = stays.reasons["j"].alternatives[0]
    assert told.rate == pytest.approx(1.3), "what is believed is told"
    much = replace(job, rates=Scaling((1.0, 2.0)))
    assert Heet(Weights(caution=1.0)).decide(replace(view, jobs=(much,))).chosen == {"j": (0, 1)}
