"""Properties of every history: phases, pauses, failures, stragglers."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.errors import InputError
from staves.scheduling import Decision, Heet, JobKind, JobView, Policy, Srtf, View
from staves.simulation import (
    Conditions,
    JobResult,
    Request,
    Simulation,
    Submission,
    Workload,
    job_document,
    replay,
    submissions,
    summary,
)
from staves.testing import Scaling
from tests.simulation import small

seeds = st.integers(0, 2**32 - 1)
CLUSTER = small.cluster(a=2, b=1)
APPLICATION = small.application({"a": 1.0, "b": 0.4})


class Restless(Policy):
    """Gives every job other devices at every decision, drawn from the view: many changes."""

    name = "restless"
    round_seconds = 37.0

    def decide(self, view: View) -> Decision:
        draw = np.random.default_rng(int(view.now * 1000) % 2**32)
        free = list(view.capacity)
        chosen = {}
        for job in view.jobs:
            g, count = int(draw.integers(len(free))), int(draw.integers(1, 4))
            if free[g] >= count and draw.random() < 0.9:
                free[g] -= count
                chosen[job.id] = tuple(count if h == g else 0 for h in range(len(free)))
        return Decision(chosen)


POLICIES: tuple[Policy, ...] = (Srtf(), Heet(), Restless())


def workload(seed: int, jobs: int = 5) -> Workload:
    draw = np.random.default_rng(seed)
    return Workload(
        "w",
        tuple(
            Request(f"job-{i}", float(t), "small", int(draw.choice([1, 2])), 32)
            for i, t in enumerate(np.sort(draw.uniform(0, 200, jobs)).round(2))
        ),
    )


def played(
    seed: int, policy: Policy, **conditions: float | bool
) -> tuple[list[Submission], Simulation]:
    kind: JobKind = "rigid" if isinstance(policy, Srtf) else "adaptive"
    jobs = submissions(workload(seed), {"small": APPLICATION}, CLUSTER, kind, in_place_seconds=3.0)
    done = replay(policy, CLUSTER, jobs, conditions=Conditions(seed, **conditions), until=1e5)  # type: ignore[arg-type]
    return jobs, done


def truth(job: Submission, result: JobResult, slow: dict[str, float]) -> float:
    """Reckon the work of a history anew: second by second through spans, pauses and phases."""
    done, marks = 0.0, job.work.marks
    phase = 0
    for span in result.spans:
        nodes: dict[str, dict[str, int]] = {"a": {}, "b": {}}
        for device in span.allocation:
            of = nodes[device.type.name]
            of[device.node] = of.get(device.node, 0) + 1
        placement = tuple(tuple(sorted(of.values(), reverse=True)) for of in nodes.values())
        factor = max(slow.get(node, 1.0) for node in span.allocation.nodes)
        paused = sum(
            max(0.0, min(p.since + p.seconds, span.until) - max(p.since, span.since))
            for p in result.pauses
        )
        left = span.until - span.since - paused
        while left > 1e-9 and phase < len(marks):
            rate = job.work.rate(phase, placement) / factor
            needed = (marks[phase] - done) / rate if rate > 0 else math.inf
            step = min(left, needed)
            done += step * rate
            left -= step
            phase += needed <= step + 1e-9
    return done


@given(seeds, st.sampled_from(POLICIES), st.sampled_from([0.0, 0.6]))
@settings(max_examples=30, deadline=None)
def test_work_is_conserved_through_phases_and_changes(
    seed: int, policy: Policy, stragglers: float
) -> None:
    jobs, done = played(seed, policy, straggler_share=stragglers)
    slow = Conditions(seed, straggler_share=stragglers).slowdowns([n.name for n in CLUSTER.nodes])
    for job, result in zip(jobs, done.jobs, strict=True):
        assert result.finished is not None
        assert truth(job, result, slow) == pytest.approx(job.work.marks[-1], rel=1e-6)


class Watching(Restless):
    """Keeps the views that it saw."""

    def __init__(self) -> None:
        self.views: list[View] = []

    def decide(self, view: View) -> Decision:
        self.views.append(view)
        return super().decide(view)


def test_views_are_whole_in_order_and_hold_what_was_submitted() -> None:
    policy = Watching()
    jobs, _ = played(0, policy)
    submitted = {job.view.id: job.view for job in jobs}
    order = [job.view.id for job in jobs]
    told = ("minimum", "maximum", "types", "mix", "weight", "elastic", "application", "requested")
    assert any(job.current is not None for view in policy.views for job in view.jobs)
    for view in policy.views:
        assert [job.id for job in view.jobs] == [i for i in order if i in {j.id for j in view.jobs}]
        for job in view.jobs:
            assert all(hasattr(job, each.name) for each in dataclasses.fields(JobView))
            assert all(getattr(job, name) == getattr(submitted[job.id], name) for name in told)
            assert 0 < job.remaining <= jobs[0].work.marks[-1]


@given(seeds, st.sampled_from(POLICIES), st.booleans())
@settings(max_examples=30, deadline=None)
def test_no_device_is_held_twice_nor_while_its_node_is_down(
    seed: int, policy: Policy, in_place: bool
) -> None:
    _, done = played(
        seed,
        policy,
        failure_seconds=400.0,
        repair_seconds=100.0,
        checkpoint_seconds=20.0,
        in_place=in_place,
    )
    spans = [span for result in done.jobs for span in result.spans]
    for one, two in itertools.combinations(spans, 2):
        if one.since < two.until and two.since < one.until:
            assert one.allocation.disjoint(two.allocation)
    for result in done.jobs:
        for span in result.spans:
            assert result.submitted <= span.since < span.until
        for span, after in itertools.pairwise(result.spans):
            assert span.until <= after.since
        for pause in result.pauses:
            assert pause.seconds > 0
            assert any(s.since <= pause.since < s.until for s in result.spans)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_a_failure_loses_what_was_since_the_last_checkpoint(seed: int) -> None:
    """One job, one node that fails: its rate is at most the largest, and so is what it lost."""
    job = Submission(
        JobView("j", 0.0, Scaling((5.0,)), maximum=4, start_pause=2.0, resize_pause=2.0),
        submissions(
            Workload("w", (Request("j", 0.0, "small", 1, 16),)),
            {"small": small.application({"a": 1.0}, epochs=12)},
            small.cluster(a=1),
            "adaptive",
        )[0].work,
    )
    conditions = Conditions(
        seed, failure_seconds=60.0, repair_seconds=10.0, checkpoint_seconds=15.0
    )
    done = replay(Srtf(), small.cluster(a=1), [job], conditions=conditions, until=1e5)
    (result,) = done.jobs
    fastest = max(job.work.rate(p, ((n,),)) for p in range(12) for n in (1, 2, 3, 4))
    assert result.failures == len(result.spans) - (result.finished is not None)
    assert 0 <= result.lost <= result.failures * 15.0 * fastest * (1 + 1e-9)
    if result.finished is not None:
        trained = sum(s.until - s.since for s in result.spans) - sum(
            p.seconds for p in result.pauses
        )
        slowest = min(job.work.rate(p, ((1,),)) for p in range(12))
        assert trained * fastest >= job.work.marks[-1] + result.lost - 1e-6
        assert trained * slowest <= job.work.marks[-1] + result.lost + 1e-6


def test_a_failure_at_a_known_moment_undoes_a_known_amount() -> None:
    """One sample a second, a checkpoint every 10 s, a pause of 2 s at each start."""
    view = JobView("j", 0.0, Scaling((1.0,)), remaining=100.0, start_pause=2.0)
    from staves.simulation import FluidWork

    cluster = small.cluster(a=1)
    conditions = Conditions(3, failure_seconds=50.0, repair_seconds=5.0, checkpoint_seconds=10.0)
    (result,) = replay(
        Srtf(), cluster, [Submission(view, FluidWork(view.rates, 100.0))], conditions=conditions
    ).jobs
    lost, left = 0.0, 100.0
    for span in result.spans[:-1]:
        trained = max(0.0, span.until - span.since - 2.0)
        lost += trained % 10.0
        left -= trained - trained % 10.0
    last = result.spans[-1]
    assert result.failures == len(result.spans) - 1 > 0
    assert result.lost == pytest.approx(lost)
    assert last.until - last.since - 2.0 == pytest.approx(left)


def test_in_place_the_survivors_keep_what_was_done() -> None:
    jobs = submissions(workload(1, 1), {"small": APPLICATION}, CLUSTER, "adaptive")

    class All(Policy):
        name = "all"
        round_seconds = None

        def decide(self, view: View) -> Decision:
            return Decision({job.id: view.capacity for job in view.jobs if any(view.capacity)})

    conditions = Conditions(5, failure_seconds=100.0, repair_seconds=50.0, in_place=True)
    (result,) = replay(All(), small.cluster(a=3), jobs, conditions=conditions).jobs
    assert result.failures > 0
    assert result.lost == 0.0
    assert {len(span.allocation) for span in result.spans} >= {8, 12}


def test_equal_seeds_give_equal_bytes() -> None:
    def document(seed: int) -> str:
        jobs, done = played(seed, Heet(), failure_seconds=500.0, straggler_share=0.5)
        told = summary(done, jobs, CLUSTER)
        for name in ("decision_seconds", "wall_seconds", "cpu_seconds"):
            del told[name]
        return json.dumps([told, [job_document(job) for job in done.jobs]])

    assert document(7) == document(7)
    assert document(7) != document(8)


def test_a_lone_job_takes_its_pause_and_its_epochs() -> None:
    """One device, one type: every batch by hand, the best of them in each epoch."""
    request = Workload("w", (Request("j", 3.0, "small", 1, 16),))
    cluster = small.cluster(a=1)
    jobs = submissions(request, {"small": APPLICATION}, cluster, "elastic")
    one = replay(Srtf(), cluster, [Submission(_single(jobs[0].view), jobs[0].work)])
    step = small.FIXED + small.PER_SAMPLE * 16
    assert one.jobs[0].jct_seconds == pytest.approx(30.0 + 300 * step, rel=1e-6)

    adaptive = submissions(request, {"small": APPLICATION}, cluster, "adaptive")[0]
    done = replay(Srtf(), cluster, [Submission(_single(adaptive.view), adaptive.work)])
    expected = 30.0
    for noise in np.geomspace(1.0, 30.0, 3):
        best = 0.0
        for total in np.geomspace(16, 128, 50):
            passes = max(math.ceil(total / 64 - 1e-8), 2 if total > 16 + 1e-8 else 1)
            local = math.ceil(total / passes - 1e-8)
            batch = local * passes
            gain = (noise + 1) / (noise / (batch / 16) + 1)
            best = max(best, gain / (passes * (small.FIXED + small.PER_SAMPLE * local)))
        expected += 100 / best
    assert done.jobs[0].jct_seconds == pytest.approx(expected, rel=1e-6)


def _single(view: JobView) -> JobView:
    from dataclasses import replace

    return replace(view, minimum=1, maximum=1)


def test_conditions_are_checked() -> None:
    with pytest.raises(InputError, match="failure_seconds"):
        Conditions(failure_seconds=0.0)
    with pytest.raises(InputError, match="straggler_share"):
        Conditions(straggler_share=1.5)
    with pytest.raises(InputError, match="repair_seconds"):
        Conditions(repair_seconds=math.inf)
