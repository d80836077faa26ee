from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from staves.scheduling import Decision, Srtf, View
from staves.simulation import Request, Submission, Workload, replay, submissions
from tests.simulation import small


class Watched(Srtf):
    """Notes when the job would end by its steps, and by its work, at its present speed."""

    round_seconds = 0.5  # type: ignore[assignment]

    def __init__(self) -> None:
        self.by_steps: list[float] = []
        self.by_work: list[float] = []

    def decide(self, view: View) -> Decision:
        job = view.jobs[0]
        if job.current is not None:
            rate = float(job.rates(np.array([job.current]))[0])
            start = view.now + job.pause_left
            self.by_steps.append(start + job.steps_left * job.step_work / rate)
            self.by_work.append(start + job.remaining / rate)
        return super().decide(view)


def test_steps_foresee_the_end_where_work_does_not() -> None:
    """Batch 64 of a reference of 16: a step is worth more from epoch to epoch."""
    requests = Workload("w", (Request("j", 0.0, "small", 1, 64),))
    cluster = small.cluster(a=1)
    job = submissions(requests, {"small": small.application({"a": 1.0})}, cluster, "elastic")[0]
    alone = Submission(replace(job.view, minimum=1, maximum=1), job.work)
    policy = Watched()
    finished = replay(policy, cluster, [alone]).jobs[0].finished
    assert finished is not None
    assert len(policy.by_steps) > 10
    assert policy.by_steps == pytest.approx([finished] * len(policy.by_steps))
    assert max(policy.by_work) > 1.1 * finished


def test_where_the_batch_adapts_steps_are_not_known() -> None:
    requests = Workload("w", (Request("j", 0.0, "small", 1, 64),))
    cluster = small.cluster(a=1)
    job = submissions(requests, {"small": small.application({"a": 1.0})}, cluster, "adaptive")[0]
    seen: Counter[float] = Counter()

    class Counting(Srtf):
        def decide(self, view: View) -> Decision:
            seen[view.jobs[0].steps_left] += 1
            return super().decide(view)

    replay(Counting(), cluster, [Submission(replace(job.view, minimum=1, maximum=1), job.work)])
    assert set(seen) == {np.inf}
