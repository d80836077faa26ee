"""Published figures of schedules small enough to be reckoned by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from staves.hardware import Allocation
from staves.scheduling import JobView
from staves.simulation import FluidWork, JobResult, Span, Submission
from staves.simulation._bounds import Alone, contention
from staves.simulation._metrics import (
    deadlines,
    device_hours_per_job,
    fairness,
    finish_time_fairness,
    jct_distribution,
    mean_contention,
    peak_active,
    published_metrics,
)
from tests.simulation import small


def result(name: str, submitted: float, finished: float | None) -> JobResult:
    return JobResult(name, submitted, submitted, finished, (), ())


class Linear:
    """One sample a second on each device."""

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        rates: NDArray[np.float64] = configurations.sum(axis=1).astype(np.float64)
        return rates


def job(name: str, work: float, *, at: float = 0.0, deadline: float = math.inf) -> Submission:
    rates = Linear()
    view = JobView(name, at, rates, maximum=64, deadline=deadline)
    return Submission(view, FluidWork(rates, work))


def test_rho_of_two_equal_jobs_that_share_is_one() -> None:
    """Each has half of four devices from 0 to 50: as alone on a half."""
    jobs = [job("a", 100.0), job("b", 100.0)]
    done = [result("a", 0.0, 50.0), result("b", 0.0, 50.0)]
    assert finish_time_fairness(done, jobs, Alone((4,))) == pytest.approx([1.0, 1.0])
    assert fairness([1.0, 1.0 + 1e-14]) == {
        "worst": pytest.approx(1.0),
        "mean": pytest.approx(1.0),
        "unfair_share": 0.0,
    }


def test_rho_of_jobs_one_after_the_other() -> None:
    """a: 0 to 25 on all four, N = 2; alone on two it would take 50. b: 0 to 50, N = 1.5."""
    jobs = [job("a", 100.0), job("b", 100.0)]
    done = [result("a", 0.0, 25.0), result("b", 0.0, 50.0)]
    first, second = finish_time_fairness(done, jobs, Alone((4,)))
    assert first == pytest.approx(25 / 50)
    assert second == pytest.approx(50 / (100 / math.floor(4 / 1.5)))
    assert mean_contention(done) == pytest.approx((2 + 1.5) / 2)


def test_a_job_that_did_not_finish_counts_nowhere_but_in_the_distribution() -> None:
    jobs = [job("a", 100.0), job("b", 100.0)]
    done = [result("a", 0.0, 25.0), result("b", 0.0, None)]
    ratios = finish_time_fairness(done, jobs, Alone((4,)))
    assert math.isnan(ratios[1])
    assert ratios[0] == pytest.approx(25 / 50)  # b is active all the while
    assert fairness(ratios)["worst"] == ratios[0]
    assert jct_distribution(done, (0.5, 1.0)) == {"0.5": 25.0, "1": None}
    assert fairness([math.nan]) == {"worst": None, "mean": None, "unfair_share": None}


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=60), st.floats(0.01, 1.0))
def test_the_distribution_is_that_of_counting(times: list[float], share: float) -> None:
    """The least time that at least that share of jobs does not exceed."""
    done = [result(str(n), 0.0, time) for n, time in enumerate(times)]
    (told,) = jct_distribution(done, (share,)).values()
    least = min(t for t in times if sum(x <= t for x in times) >= share * len(times) - 1e-6)
    assert told == least


def test_device_hours() -> None:
    devices = small.cluster(a=1).devices()
    span = Span(0.0, 1800.0, Allocation(devices[:2]))
    one = JobResult("a", 0.0, 0.0, 1800.0, (span,), ())
    assert device_hours_per_job([one, result("b", 0.0, 5.0)]) == pytest.approx(0.5)
    assert device_hours_per_job([]) is None


def test_deadlines_met() -> None:
    done = [result("a", 0.0, 10.0), result("b", 0.0, 10.1), result("c", 0.0, None)]
    by = {"a": 10.0, "b": 10.0, "c": 99.0, "d": 1.0}
    assert deadlines(done, by) == {"jobs": 3, "met": 1, "share": pytest.approx(1 / 3)}
    assert deadlines(done, {"a": math.inf}) == {"jobs": 0, "met": 0, "share": None}


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 20)).map(lambda p: (p[0], p[0] + p[1])),
        min_size=1,
        max_size=20,
    )
)
def test_contention_by_seconds(spans: list[tuple[int, int]]) -> None:
    """Whole seconds counted one by one are the oracle."""
    done = [result(str(n), float(a), float(b)) for n, (a, b) in enumerate(spans)]
    active = [sum(a <= t < b for a, b in spans) for t in range(60)]
    assert peak_active(done) == max(active)
    expected = [sum(active[a:b]) / (b - a) for a, b in spans]
    assert contention(done) == pytest.approx(expected)


def test_all_stand_in_a_summary() -> None:
    told = published_metrics(
        [result("a", 0.0, 50.0)], [job("a", 100.0, deadline=60.0)], Alone((4,))
    )
    assert told["deadlines"] == {"jobs": 1, "met": 1, "share": 1.0}
    assert told["contention"] == 1.0
    assert told["peak_active_jobs"] == 1
    assert told["finish_time_fairness"]["worst"] == pytest.approx(2.0)
