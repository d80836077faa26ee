from __future__ import annotations

import itertools
import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.errors import InputError, StavesError
from staves.estimation import EvenRates, JobProfile, ProfileRates
from staves.hardware import Cluster, DeviceType, Node
from staves.scheduling import Decision, Fifo, Heet, JobView, Policy, Srtf, View
from staves.simulation import Simulation, simulate
from staves.steptime import Communication, Line
from staves.testing import Scaling

seeds = st.integers(0, 2**32 - 1)
POLICIES: tuple[Policy, ...] = (Fifo(), Srtf(), Heet())


def cluster(**counts: int) -> Cluster:
    """Nodes of one type, of up to two devices each."""
    nodes = [
        Node(f"{name}-{start}", {name: min(2, count - start)})
        for name, count in counts.items()
        for start in range(0, count, 2)
    ]
    return Cluster({name: DeviceType(name) for name in counts}, tuple(nodes))


def random_jobs(rng: np.random.Generator, types: int) -> list[JobView]:
    jobs = []
    for i in range(int(rng.integers(1, 12))):
        minimum = int(rng.choice([1, 1, 2]))
        jobs.append(
            JobView(
                f"job-{i}",
                float(rng.choice([0.0, 10.0, rng.uniform(0, 2000)])),
                Scaling(tuple(10 ** rng.uniform(0, 1, types)), float(rng.choice([0.0, 0.1, 1.2]))),
                remaining=float(10 ** rng.uniform(0, 4)),
                minimum=minimum,
                maximum=minimum + int(rng.integers(0, 4)),
                elastic=bool(rng.random() < 0.8),
                start_pause=float(rng.choice([0.0, 5.0])),
                resize_pause=float(rng.choice([0.0, 2.0])),
            )
        )
    return jobs


@given(seeds, st.sampled_from(POLICIES))
@settings(max_examples=100)
def test_every_history_adds_up(seed: int, policy: Policy) -> None:
    rng = np.random.default_rng(seed)
    jobs = random_jobs(rng, 2)
    done = simulate(policy, cluster(a=3, b=2), jobs)
    for job, result in zip(jobs, done.jobs, strict=True):
        assert result.id == job.id
        assert result.finished is not None
        assert result.started is not None
        assert job.submitted <= result.started < result.finished
        progress = 0.0
        for span in result.spans:
            assert span.since < span.until
            counts = [span.allocation.configuration.count(name) for name in ("a", "b")]
            assert job.minimum <= sum(counts) <= job.maximum
            paused = sum(
                max(0.0, min(p.since + p.seconds, span.until) - max(p.since, span.since))
                for p in result.pauses
            )
            progress += (span.until - span.since - paused) * job.rates(np.array([counts]))[0]
        assert progress == pytest.approx(job.remaining, rel=1e-6)
        for one, two in itertools.pairwise(result.spans):
            assert one.until <= two.since
        if not job.elastic:
            assert len(result.spans) == 1
    spans = [span for result in done.jobs for span in result.spans]
    for one, two in itertools.combinations(spans, 2):
        if one.since < two.until and two.since < one.until:
            assert one.allocation.disjoint(two.allocation)
    assert simulate(policy, cluster(a=3, b=2), jobs) == done


@given(seeds, st.sampled_from(POLICIES))
def test_a_lone_job_takes_its_pause_and_its_work(seed: int, policy: Policy) -> None:
    rng = np.random.default_rng(seed)
    job = replace(random_jobs(rng, 2)[0], minimum=1, maximum=1)
    rate = max(job.rates(np.eye(2, dtype=np.int64)))
    (result,) = simulate(policy, cluster(a=2, b=2), [job]).jobs
    assert result.jct_seconds == pytest.approx(job.start_pause + job.remaining / rate)
    assert sum(pause.seconds for pause in result.pauses) == pytest.approx(job.start_pause)


def textbook() -> list[JobView]:
    """One device; 30 s of work, and then 10 s and 5 s of work that come a little later."""
    rates = Scaling((1.0,))
    return [
        JobView("long", 0.0, rates, 30.0),
        JobView("middle", 1.0, rates, 10.0),
        JobView("short", 2.0, rates, 5.0),
    ]


def times(done: Simulation) -> list[float | None]:
    return [job.jct_seconds for job in done.jobs]


def test_shortest_first_beats_first_in_first_out() -> None:
    one = cluster(a=1)
    fifo, srtf = simulate(Fifo(), one, textbook()), simulate(Srtf(), one, textbook())
    assert times(fifo) == [30.0, 39.0, 43.0]
    assert times(srtf) == [45.0, 15.0, 5.0]
    assert (fifo.average_jct_seconds, srtf.average_jct_seconds) == (112 / 3, 65 / 3)
    assert fifo.makespan_seconds == srtf.makespan_seconds == 45.0


def test_an_unknown_length_is_not_told() -> None:
    seen: list[float] = []

    class Spy(Fifo):
        def decide(self, view: View) -> Decision:
            seen.extend(job.remaining for job in view.jobs)
            return super().decide(view)

    simulate(Spy(), cluster(a=1), textbook(), work_known=False)
    assert set(seen) == {math.inf}


def test_even_splits_over_unlike_devices_take_longer() -> None:
    """What `fifo` with even splits would have taken, from the same profile."""
    profile = JobProfile(
        64,
        {
            "a": (Line(0.0, 0.001), Line(0.0, 0.001)),
            "b": (Line(0.0, 0.004), Line(0.0, 0.004)),
        },
        Communication((1.0,), (0.01,)),
        2,
    )
    lines = profile.type_lines(("a", "b"), {})
    job = JobView("mixed", 0.0, ProfileRates(64, lines), 6400.0, minimum=2, maximum=2)
    even = replace(job, rates=EvenRates(64, lines))
    one_each = cluster(a=1, b=1)
    (fast,), (slow,) = (simulate(Fifo(), one_each, [j]).jobs for j in (job, even))
    # 51 and 13 samples take 0.104 s on b; 32 each take 0.256 s.
    assert fast.jct_seconds == pytest.approx(100 * (0.104 + 0.01))
    assert slow.jct_seconds == pytest.approx(100 * (0.256 + 0.01))


def test_it_stops_where_it_is_told() -> None:
    done = simulate(Fifo(), cluster(a=1), textbook(), until=12.0)
    assert times(done) == [None, None, None]
    assert [job.device_seconds for job in done.jobs] == [12.0, 0.0, 0.0]
    assert done.makespan_seconds is None


def test_jobs_that_no_cluster_holds_do_not_keep_it_going() -> None:
    giant = JobView("giant", 0.0, Scaling((1.0,)), 1.0, minimum=9, maximum=9)
    for policy in POLICIES:
        done = simulate(policy, cluster(a=1), [giant, *textbook()])
        assert done.jobs[0].started is None
        assert all(job.finished is not None for job in done.jobs[1:])


def test_a_policy_that_never_lets_a_job_advance_is_stopped() -> None:
    class Toggle(Policy):
        name = "toggle"
        round_seconds = 1.0

        def decide(self, view: View) -> Decision:
            (job,) = view.jobs
            return Decision({job.id: (0, 1) if job.current == (1, 0) else (1, 0)})

    job = JobView("j", 0.0, Scaling((1.0, 1.0)), 5.0, start_pause=2.0, resize_pause=2.0)
    with pytest.raises(StavesError, match="100 decisions"):
        simulate(Toggle(), cluster(a=1, b=1), [job], most_decisions=100)
    (result,) = simulate(Toggle(), cluster(a=1, b=1), [job], until=10.0).jobs
    assert sum(pause.seconds for pause in result.pauses) == pytest.approx(10.0)


def test_policies_are_told_all_that_was_submitted() -> None:
    """Whatever a job is submitted with, in every field that does not change by itself."""
    seen: list[JobView] = []

    class Watching(Fifo):
        def decide(self, view: View) -> Decision:
            seen.extend(view.jobs)
            return super().decide(view)

    plain = JobView("j", 0.0, Scaling((1.0,)), 5.0)
    told: dict[str, Any] = {
        "minimum": 2,
        "maximum": 3,
        "types": frozenset({0}),
        "mix": False,
        "weight": 0.5,
        "elastic": False,
        "guaranteed": 1,
        "start_pause": 0.5,
        "resize_pause": 0.25,
        "resize_delay": 4.0,
        "unmeasured": frozenset({0}),
        "probes": (0,),
        "log_std": Scaling((0.1,)),
        "name": "a name",
        "application": "an application",
        "requested": 2,
        "deadline": 77.0,
        "settling": True,
        "tenant": "a tenant",
    }
    found = {
        "id", "submitted", "rates", "remaining", "current", "attained", "waiting", "pause_left",
        "age", "restarts", "scale_limit", "progress", "held_seconds", "step_work", "unchanged",
        "steps_left",
    }  # fmt: skip
    assert found | told.keys() == {each.name for each in fields(JobView)}
    simulate(Watching(), cluster(a=4), [replace(plain, **told)])
    assert seen
    assert {name: getattr(seen[0], name) for name in told} == told


def test_a_change_does_not_cut_a_longer_pause_short() -> None:
    class Move(Policy):
        name = "move"

        def decide(self, view: View) -> Decision:
            counts = (1, 0) if view.now == 0 else (0, 1)
            return Decision({job.id: counts for job in view.jobs if job.id == "j"})

    rates = Scaling((1.0, 1.0))
    job = JobView("j", 0.0, rates, 5.0, start_pause=10.0, resize_pause=1.0)
    other = JobView("k", 2.0, rates, 5.0)
    moved, _ = simulate(Move(), cluster(a=1, b=1), [job, other]).jobs
    assert moved.finished == 15.0
    assert [(p.since, p.seconds) for p in moved.pauses] == [(0.0, 2.0), (2.0, 8.0)]


def test_bad_input_is_refused() -> None:
    long, middle, _ = textbook()
    with pytest.raises(InputError, match="two jobs"):
        simulate(Fifo(), cluster(a=1), [long, replace(middle, id="long")])
    with pytest.raises(InputError, match="finite"):
        simulate(Fifo(), cluster(a=1), [replace(long, remaining=math.inf)])

    class Stranger(Policy):
        name = "stranger"

        def decide(self, view: View) -> Decision:
            return Decision({"nobody": (1,)})

    with pytest.raises(StavesError, match="'nobody', which is no active job"):
        simulate(Stranger(), cluster(a=1), [long])
