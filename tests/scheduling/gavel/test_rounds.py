from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from staves.scheduling import Gavel, GavelFtf, GavelMakespan, GavelMaxMin, JobView, Policy, View
from staves.scheduling._settled import requested
from staves.testing import Scaling


def view(*jobs: JobView, capacity: tuple[int, int] = (2, 1)) -> View:
    return View(0.0, ("slow", "fast"), capacity, (capacity,), jobs)


def job(name: str, speed: tuple[float, float] = (1.0, 3.0), **more: object) -> JobView:
    return JobView(name, 0.0, Scaling(speed), 1e6, mix=False, **more)  # type: ignore[arg-type]


def rounds(
    policy: Policy, jobs: list[JobView], count: int, capacity: tuple[int, int]
) -> np.ndarray:
    """Return the share of `count` rounds that each job had on each type, (J, G)."""
    held = np.zeros((len(jobs), 2))
    for _ in range(count):
        now = [
            replace(one, held_seconds=tuple((360.0 * had).tolist()))
            for one, had in zip(jobs, held, strict=True)
        ]
        decision = policy.decide(view(*now, capacity=capacity))
        for index, one in enumerate(jobs):
            counts = decision.chosen.get(one.id, (0, 0))
            held[index] += [n > 0 for n in counts]
    return held / count


def test_rounds_give_jobs_that_are_alike_equal_time() -> None:
    jobs = [job(name) for name in "abcde"]
    shares = rounds(Gavel(), jobs, 200, (1, 1))
    assert shares == pytest.approx(np.full((5, 2), 1 / 5), abs=0.03)


def test_rounds_follow_the_shares_of_the_slowest_first() -> None:
    """Two jobs of one fast device: by least throughput both have half of it."""
    jobs = [job("x", (0.0, 1.0)), job("y", (0.0, 5.0))]
    shares = rounds(GavelMaxMin(), jobs, 100, (2, 1))
    assert shares == pytest.approx(np.array([[0.0, 0.5], [0.0, 0.5]]), abs=0.02)


def test_the_largest_sum_puts_the_job_that_gains_most_on_the_fast_type() -> None:
    jobs = job("x", (1.0, 2.0)), job("y", (1.0, 9.0))
    assert Gavel().decide(view(*jobs)).chosen == {"x": (1, 0), "y": (0, 1)}


def test_throughput_counts_in_steps() -> None:
    """y's samples are more, but its steps fewer, as each is worth 100."""
    jobs = job("x", (1.0, 2.0), step_work=1.0), job("y", (1.0, 9.0), step_work=100.0)
    assert Gavel().decide(view(*jobs)).chosen == {"x": (0, 1), "y": (1, 0)}


def test_the_longest_job_has_the_fast_type_where_the_makespan_counts() -> None:
    long, short = replace(job("long"), remaining=100.0), replace(job("short"), remaining=1.0)
    assert GavelMakespan().decide(view(short, long)).chosen["long"] == (0, 1)


def test_the_job_that_has_waited_most_goes_first_where_fairness_counts() -> None:
    old = replace(job("old", (0.0, 1.0)), submitted=-1e6, remaining=100.0)
    new = replace(job("new", (0.0, 1.0)), submitted=-1.0, remaining=100.0)
    assert GavelFtf().decide(view(new, old)).chosen == {"old": (0, 1)}


def test_rigid_jobs_have_what_they_asked_for_or_nothing() -> None:
    jobs = job("x", requested=2, maximum=8), job("y", requested=3, maximum=8)
    decision = Gavel().decide(view(*jobs))
    assert decision.chosen == {"x": (2, 0)}
    assert "3 devices of one type" in decision.reasons["y"].text
    assert requested(job("z", requested=9, maximum=4)) == 4


def test_work_that_nobody_knows_is_no_obstacle() -> None:
    unknown = replace(job("x"), remaining=np.inf)
    for policy in (GavelMakespan(), GavelFtf()):
        assert policy.decide(view(unknown, job("y"))).chosen.keys() == {"x", "y"}
