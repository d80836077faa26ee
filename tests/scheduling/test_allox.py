from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.scheduling import Allox
from staves.scheduling._allox import schedule
from tests.scheduling.curves import job, view


def total(seconds: np.ndarray, lines: dict[tuple[int, int], list[int]]) -> float:
    """Return the sum of completion times of jobs that run one after the other on machines."""
    return sum(
        sum(itertools.accumulate(float(seconds[j, g]) for j in line))
        for (g, _), line in lines.items()
    )


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_no_schedule_has_a_smaller_average_completion_time(seed: int) -> None:
    """All ways to give jobs to machines; on one machine the shortest first is best."""
    rng = np.random.default_rng(seed)
    seconds = rng.uniform(1, 10, (5, 2))
    seconds[rng.random(5) < 0.3, 0] = np.inf
    machines = [(0, 0), (0, 1), (1, 0)]
    best = np.inf
    for way in itertools.product(range(3), repeat=5):
        lines: dict[tuple[int, int], list[int]] = {machine: [] for machine in machines}
        for j, m in enumerate(way):
            lines[machines[m]].append(j)
        for (g, _), line in lines.items():
            line.sort(key=lambda j: float(seconds[j, g]))
        best = min(best, total(seconds, lines))
    kind, place = schedule(seconds, [2, 1], [0.0, 0.0])
    assert sum(place * seconds[np.arange(5), kind]) == pytest.approx(best)
    for g, count in ((0, 2), (1, 1)):  # no place is taken more often than there are machines
        taken = np.bincount(place[kind == g], minlength=6)
        assert (taken <= count).all()


def test_a_busy_type_counts_until_it_is_free() -> None:
    seconds = np.array([[1.0, 3.0]])
    assert schedule(seconds, [1, 1], [0.0, 0.0])[0].tolist() == [0]
    assert schedule(seconds, [1, 1], [5.0, 0.0])[0].tolist() == [1]


def test_the_shortest_starts_first_and_waits_for_the_faster_type() -> None:
    jobs = [job(f"{work}", (1.0,), (10.0,), remaining=float(work)) for work in (30, 10, 20)]
    assert Allox().decide(view((0, 1), *jobs)).chosen == {"10": (0, 1)}
    decision = Allox().decide(view((1, 1), *jobs))
    assert decision.chosen["10"] == (0, 1)  # 1 + 3 + 6 s on b in line; 10 s and more on a
    assert set(decision.chosen) == {"10"}
    assert "line for b" in decision.reasons["20"].text


def test_who_runs_runs_to_the_end() -> None:
    long = job("long", (1.0,), remaining=1e6, current=(1,))
    short = job("short", (1.0,), remaining=1.0)
    assert Allox().decide(view((1,), long, short)).chosen == {"long": (1,)}


def test_jobs_have_what_they_asked_for() -> None:
    one = job("x", (1.0, 1.5, 2.0), (2.0,), remaining=10.0, requested=3)
    assert Allox().decide(view((3, 1), one)).chosen == {"x": (3, 0)}
    assert Allox().decide(view((2, 1), one)).chosen == {}
