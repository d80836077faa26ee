"""How long a job waits at most while shorter ones keep coming: the bounds of `heet._utility`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.hardware import Cluster, DeviceType, Node
from staves.scheduling import Heet, JobView
from staves.scheduling.heet import Weights
from staves.simulation import JobResult, Simulation, simulate
from staves.testing import Scaling

ROUND = 60.0
STREAM = 200  # short jobs


@dataclass(frozen=True)
class Story:
    """A long job, first in the list, and a stream of short ones that leaves no device free."""

    jobs: list[JobView]
    capacity: tuple[int, ...]
    wait_target: float

    def played(self, weights: Weights) -> Simulation:
        """Return what happens until the long job has started, and a little more."""
        names = "ab"[: len(self.capacity)]
        nodes = tuple(
            Node(f"n{g}", {name: n})
            for g, (name, n) in enumerate(zip(names, self.capacity, strict=True))
        )
        cluster = Cluster({name: DeviceType(name) for name in names}, nodes)
        until = ROUND
        while True:
            result = simulate(Heet(weights), cluster, self.jobs, until=until)
            if result.jobs[0].started is not None or until > 1e6:
                return result
            until *= 2


def story(seed: int) -> Story:
    """Of short jobs some wait from the first, and one comes whenever a device becomes free."""
    rng = np.random.default_rng(seed)
    types = int(rng.integers(1, 3))
    capacity = tuple(rng.integers(1, 3, types).tolist())
    speeds = tuple((10 ** rng.uniform(0, 0.2, types)).tolist())
    work, pause = float(rng.uniform(20.0, 60.0)), float(rng.choice([0.0, 5.0]))
    ends_a_second = sum(
        n / (pause + work / speed) for n, speed in zip(capacity, speeds, strict=True)
    )
    gap, waiting = rng.uniform(0.97, 1.0) / ends_a_second, int(rng.integers(1, 4))
    least = int(rng.integers(1, max(capacity) + 1))
    long = JobView(
        "long",
        1e-3,
        Scaling(speeds, 0.2),
        remaining=float(rng.uniform(10, 100)) * work,
        minimum=least,
        maximum=least + 1,
        start_pause=pause,
    )
    weight = float(rng.choice([1.0, 2.0]))
    short = [
        JobView(
            f"short-{i}",
            max(0.0, gap * (i - sum(capacity) - waiting)),
            Scaling(speeds),
            remaining=work,
            start_pause=pause,
            weight=weight,
        )
        for i in range(STREAM)
    ]
    return Story([long, *short], capacity, float(rng.choice([30.0, 120.0])))


def held(job: JobResult, until: float) -> float:
    return sum(max(0.0, min(span.until, until) - span.since) for span in job.spans)


def waited(job: JobResult, until: float) -> float:
    ended = until if job.finished is None else min(job.finished, until)
    return max(0.0, ended - job.submitted) - held(job, until)


def most_active(jobs: Sequence[JobResult], until: float) -> int:
    steps = [(job.submitted, 1) for job in jobs if job.submitted <= until]
    steps += [(job.finished, -1) for job in jobs if job.finished and job.finished <= until]
    return int(np.cumsum([step for _, step in sorted(steps)]).max())


def standing(job: JobView, capacity: tuple[int, ...], exponent: float) -> float:
    """Return what the job gains on its minimum, on its best type alone, before its rank."""
    pause, least = job.start_pause, job.minimum
    every = [
        counts
        for counts in itertools.product(*(range(n + 1) for n in capacity))
        if least <= sum(counts) <= job.maximum
    ]
    rates = dict(zip(every, job.rates(np.array(every)).tolist(), strict=True))
    most = max(rates.values())
    path = max(1.0, job.remaining / most)
    found = []
    for counts, rate in rates.items():
        if max(counts) == sum(counts) == least:
            seconds = path * most / rate
            if seconds + pause > 600.0:
                completion = (600.0 - pause) / 600.0 / seconds
            else:
                completion = 1 / (seconds + pause)
            found.append(float((completion * path) ** exponent))
    return max(found)


def bounds(told: Story, weights: Weights, result: Simulation) -> tuple[float, float]:
    """Return the seconds within which the long job starts: by others' waits, by their work."""
    long, short = told.jobs[0], result.jobs[1:]
    start = result.jobs[0].started
    assert start is not None
    active = most_active(result.jobs, start)
    heaviest = max(job.weight for job in told.jobs[1:])
    rank = 1 + weights.rank * (active - 1)
    square = long.minimum * heaviest / long.weight * weights.hysteresis**weights.exponent * rank
    square /= standing(long, told.capacity, weights.exponent)
    longest = max(waited(job, start) for job in short)
    work = max(held(job, start) for job in short)
    target = weights.wait_target
    by_waits = target * math.sqrt(max(square * (1 + (longest / target) ** 2) - 1, 0.0))
    by_work = math.sqrt(max(square, 1.0)) * (target + active * work)
    return by_waits + ROUND, by_work + ROUND


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_a_long_job_starts_within_the_bounds_under_a_stream_of_short_ones(seed: int) -> None:
    told = story(seed)
    weights = Weights(wait_target=told.wait_target)
    result = told.played(weights)
    long = result.jobs[0]
    assert long.started is not None
    by_waits, by_work = bounds(told, weights, result)
    assert long.started - long.submitted <= by_waits
    assert long.started - long.submitted <= by_work


def test_without_aging_the_same_job_waits_for_the_end_of_the_stream() -> None:
    told = story(0)
    start = told.played(Weights(wait_target=math.inf)).jobs[0].started
    assert start is not None
    assert start > told.jobs[-1].submitted
