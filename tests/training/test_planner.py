"""The planner, on step records of a model that is known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.convergence import best_batch, efficiency, goodput
from staves.errors import InputError
from staves.hardware import DeviceProfile, Pace
from staves.steptime import (
    Communication,
    Device,
    Line,
    StepTimeModel,
    even_split,
    integer_split,
)
from staves.training._accumulation import accumulated
from staves.training._batch_choice import BatchRange
from staves.training._environment import WorkerDevice
from staves.training._planner import (
    COMPARE,
    PROBE,
    RAMP,
    SETTLE,
    SHORT_PROBE,
    WARM_UP,
    WORTH,
    Plan,
    Planner,
    check_split,
)
from staves.training._timing import StepRecord


def device(index: int, forward: Line, backward: Line, cap: int | None = None) -> Device:
    return Device(str(index), "x", forward, backward, max_batch=cap)


def truth(speeds: Sequence[float], ready: Sequence[float], wire: Sequence[float]) -> StepTimeModel:
    """Return a model of devices with these seconds a sample."""
    devices = [
        device(i, Line(0.004, speed), Line(0.006, 2 * speed)) for i, speed in enumerate(speeds)
    ]
    return StepTimeModel(tuple(devices), Communication(tuple(ready), tuple(wire)))


class Job:
    """A planner on every rank, and measurements of a model with noise."""

    def __init__(
        self,
        model: StepTimeModel,
        batch: int,
        *,
        noise: float = 0.0,
        caps: Sequence[int | None] | None = None,
        minimums: Sequence[int] | None = None,
        jitter: float = 1.0,
        allowed: BatchRange | None = None,
        noise_scale: float | None = None,
    ) -> None:
        self.model, self.noise, self.jitter = model, noise, jitter
        self.noise_scale = noise_scale
        ranks = range(len(model.devices))
        devices = [_worker(i, 0 if minimums is None else minimums[i]) for i in ranks]
        caps = caps or [None] * len(devices)
        self.planners = [Planner(batch, devices, caps, allowed=allowed) for _ in ranks]
        self.records: list[list[StepRecord]] = [[] for _ in ranks]
        self.random = np.random.default_rng(3)
        self.step = 0
        self.since: int | None = None
        self.stages = [self.plan]
        self.decisions: list[int] = []

    @property
    def plan(self) -> Plan:
        return self.planners[0].plan

    def train(self, steps: int) -> None:
        """Take steps as a run does."""
        for _ in range(steps):
            due = {planner.due(self.step) for planner in self.planners}
            assert len(due) == 1, "ranks must agree"
            if due.pop():
                self.decisions.append(self.step)
                plan, model = self.planners[0].decide(self.records, self.noise_scale)
                told = self.planners[0].knowledge
                changed = {p.adopt(plan, self.step, model, told) for p in self.planners}
                for own in self.records:
                    own.clear()
                assert len(changed) == 1
                if changed.pop():
                    self.since = self.step
                    self.stages.append(plan)
            self._measure()
            self.step += 1

    def regret(self) -> float:
        """Return how much longer a step takes than with the best split of the true model."""
        batch = self.plan.batch
        best = integer_split(self.model, batch).step_seconds
        return self.model.step_seconds(self.plan.local_batches) / best - 1

    def _measure(self) -> None:
        settled = self.step >= (WARM_UP if self.since is None else self.since + SETTLE)
        split, wire = self.plan.local_batches, self.model.communication.seconds
        micro_steps = self.plan.micro_steps
        whole = accumulated(self.model, micro_steps)
        total = self.jitter * whole.step_seconds(split)
        for rank, (each, own) in enumerate(zip(whole.devices, self.records, strict=True)):
            forward = each.forward.seconds(split[rank]) * self._noise()
            backward = each.backward.seconds(split[rank]) * self._noise()
            waited = 0.0 if rank == self.step % len(self.records) else 0.01
            record = StepRecord(
                step=self.step,
                plan=self.plan.number,
                samples=split[rank],
                forward=forward,
                backward=backward,
                ready=tuple(share * backward for share in self.model.communication.ready),
                wire=tuple(seconds * self._noise() + waited for seconds in wire),
                step_seconds=total,
                micro_steps=micro_steps,
            )
            if settled:
                own.append(record)

    def _noise(self) -> float:
        return float(np.exp(self.noise * self.random.standard_normal()))


def _worker(index: int, minimum: int) -> WorkerDevice:
    pace = Pace(0.001, 0.001)
    profile = DeviceProfile(pace, pace, min_batch=minimum) if minimum else None
    return WorkerDevice(f"device-{index}", "x", profile)


FOUR = [0.6e-3, 0.9e-3, 1.8e-3, 1.8e-3]
BUCKETS = ([0.3, 0.7, 1.0], [0.002, 0.002, 0.001])


def test_even_then_spread_then_optimal() -> None:
    job = Job(truth(FOUR, *BUCKETS), 64)
    job.train(100)
    assert [plan.stage for plan in job.stages] == ["even", "spread", "optimal"]
    assert [plan.number for plan in job.stages] == [0, 1, 2]
    even, spread, optimal = (plan.local_batches for plan in job.stages)
    assert even == (16, 16, 16, 16)
    assert all(a != b for a, b in zip(even, spread, strict=True))
    assert optimal == integer_split(job.model, 64).local_batches
    second = WARM_UP + PROBE
    third = second + SETTLE + PROBE
    assert job.decisions == [second, third, 2 * third, 4 * third]


def test_without_noise_the_predictions_are_the_model() -> None:
    job = Job(truth(FOUR, *BUCKETS), 64)
    job.train(30)
    assert job.plan.predicted_seconds == pytest.approx(integer_split(job.model, 64).step_seconds)
    assert job.plan.even_seconds == pytest.approx(even_split(job.model, 64).step_seconds)
    fitted = job.planners[-1].model
    assert fitted is not None
    for got, wanted in zip(fitted.devices, job.model.devices, strict=True):
        assert got.forward.fixed == pytest.approx(wanted.forward.fixed)
        assert got.backward.per_sample == pytest.approx(wanted.backward.per_sample)
    assert fitted.communication.ready == pytest.approx(job.model.communication.ready)
    assert fitted.communication.seconds == pytest.approx(job.model.communication.seconds)


def test_steps_that_take_longer_than_the_model_raise_the_prediction() -> None:
    job = Job(truth(FOUR, *BUCKETS), 64, jitter=1.1)
    job.train(30)
    best = integer_split(job.model, 64).step_seconds
    assert job.plan.predicted_seconds == pytest.approx(1.1 * best)
    assert job.plan.even_seconds == pytest.approx(1.1 * even_split(job.model, 64).step_seconds)


@settings(max_examples=60)
@given(
    st.lists(st.floats(0.2e-3, 4e-3), min_size=2, max_size=6),
    st.integers(24, 80),
    st.sampled_from([BUCKETS, ([0.1, 1.0], [0.02, 0.004]), ([1.0], [0.0])]),
)
def test_the_split_is_within_one_percent_of_the_best(
    speeds: list[float], each: int, buckets: tuple[list[float], list[float]]
) -> None:
    job = Job(truth(speeds, *buckets), each * len(speeds), noise=0.01)
    job.train(30)
    assert job.plan.stage == "optimal"
    assert job.regret() <= 0.01


def test_a_long_run_keeps_its_split() -> None:
    job = Job(truth(FOUR, *BUCKETS), 64, noise=0.01)
    job.train(30)
    found = job.plan
    job.train(3500)  # records of the probes have long been dropped
    assert job.regret() <= 0.01
    assert (job.plan.number, job.plan.local_batches) == (found.number, found.local_batches)
    best = integer_split(job.model, 64).step_seconds
    assert job.plan.predicted_seconds == pytest.approx(best, rel=0.01)


@given(
    st.integers(2, 8),
    st.integers(8, 40),
    st.sampled_from([0.0, 0.05, 0.2, 0.9]),
    st.lists(st.floats(-1, 1), min_size=8, max_size=8),
)
def test_devices_are_probed_at_two_batches_however_near_they_are(
    world: int, each: int, unlike: float, deviations: list[float]
) -> None:
    # From 8 samples a device on: fewer cannot always be dealt far enough apart.
    speeds = [1e-3 * (1 + unlike * deviations[i]) for i in range(world)]
    job = Job(truth(speeds, *BUCKETS), each * world)
    job.train(WARM_UP + PROBE + 1)
    assert job.plan.stage == "spread"
    assert sum(job.plan.local_batches) == each * world
    pairs = zip(job.stages[0].local_batches, job.plan.local_batches, strict=True)
    assert all(first != second for first, second in pairs)


def test_caps_and_minimums_hold_in_every_stage() -> None:
    job = Job(truth(FOUR, *BUCKETS), 64, caps=[20, 20, 20, 20], minimums=[0, 0, 0, 6])
    job.train(100)
    assert len(job.stages) >= 3
    for plan in job.stages:
        assert max(plan.local_batches) <= 20
        assert plan.local_batches[3] >= 6
        assert (plan.batch, plan.micro_steps) == (64, 1)


@pytest.mark.parametrize(
    ("caps", "micro_steps"),
    [([16] * 4, 1), ([15] * 4, 2), ([1, 1, 1, 1], 16), ([1, 1, 1, None], 1)],
)
def test_micro_steps_are_as_few_as_the_caps_allow(caps: list[int | None], micro_steps: int) -> None:
    job = Job(truth(FOUR, *BUCKETS), 64, caps=caps)
    job.train(60)
    for plan in job.stages:
        assert plan.micro_steps == micro_steps
        for local, cap in zip(plan.local_batches, caps, strict=True):
            assert cap is None or local <= cap * micro_steps


def test_a_batch_below_the_number_of_devices() -> None:
    job = Job(truth(FOUR, *BUCKETS), 3)
    job.train(60)
    assert all(sum(plan.local_batches) == 3 for plan in job.stages)
    assert job.stages[0].local_batches == (1, 1, 1, 0)


@pytest.mark.parametrize("fixed", [None, "even"])
def test_one_device_has_nothing_to_decide(fixed: None) -> None:
    planner = Planner(32, [_worker(0, 0)], [5], fixed)
    assert planner.plan == Plan(0, "fixed", (32,), 7)
    assert not any(planner.due(step) for step in range(1000))


def test_a_fixed_split_is_kept() -> None:
    planner = Planner(32, [_worker(i, 0) for i in range(3)], [10, None, 10], [20, 12, 0])
    assert planner.plan == Plan(0, "fixed", (20, 12, 0), 2)
    assert not planner.due(10**6)


def test_minimums_above_the_batch_are_refused() -> None:
    with pytest.raises(InputError, match="16"):
        Planner(16, [_worker(i, 9) for i in range(2)], [None, None])


def test_epochs_without_one_full_batch_measure_nothing_and_decide_nothing() -> None:
    planner = Planner(32, [_worker(i, 0) for i in range(2)], [None, None])
    for step in (13, 26, 52):
        assert planner.due(step)
        plan, model = planner.decide([[], []])
        assert (plan, model) == (planner.plan, None)
        assert not planner.adopt(plan, step, model)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ([16, 16, 0], "3 local batches for 2 devices"),
        ([33, -1], "something else"),
        ([16.0, 16], "something else"),
        ([True, 31], "something else"),
        ([16, 15], "sums to 31, the batch is 32"),
    ],
)
def test_splits_that_are_none(split: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_split(split, 32, 2)


def regrouped(job: Job, *, compare: bool) -> Job:
    """The next generation of a job: the same devices but for the last, with what was learned."""
    knowledge, since, number = job.planners[0].knowledge, job.step, job.plan.number + 1
    smaller = Job(truth(FOUR[:3], *BUCKETS), 64)
    devices = [_worker(i, 0) for i in range(3)]
    smaller.planners = [
        Planner(
            64, devices, [None] * 3, knowledge=knowledge, since=since, number=number,
            compare=compare,
        )
        for _ in devices
    ]  # fmt: skip
    smaller.step = smaller.since = since
    smaller.stages = [smaller.plan]
    return smaller


@pytest.mark.parametrize("compare", [False, True])
def test_known_devices_measure_an_even_split_only_to_compare(compare: bool) -> None:
    job = Job(truth(FOUR, *BUCKETS), 64)
    job.train(30)
    job = regrouped(job, compare=compare)
    best = integer_split(job.model, 64).local_batches
    if compare:
        assert job.plan.local_batches == even_split(job.model, 64).local_batches
        job.train(SETTLE + COMPARE)
        assert job.plan.stage == "even"
        assert len(job.records[0]) == COMPARE
        job.train(1)
    assert job.plan.stage == "optimal"
    best_seconds = job.model.step_seconds(best)
    assert job.model.step_seconds(job.plan.local_batches) == pytest.approx(best_seconds)
    assert [plan.stage for plan in job.stages] == ["even", "optimal"][0 if compare else 1 :]


def test_a_comparison_without_measurements_is_given_up() -> None:
    job = Job(truth(FOUR, *BUCKETS), 64)
    job.train(30)
    planner = regrouped(job, compare=True).planners[0]
    plan, model = planner.decide([[], [], []])
    assert plan.stage == "optimal"
    assert model is planner.model


ADAPTIVE = BatchRange(64, 64, 4096)


@pytest.mark.parametrize("scale", [100.0, 2000.0, 1e5])
def test_the_batch_grows_to_the_best_one_and_stays(scale: float) -> None:
    model = truth(FOUR, *BUCKETS)
    job = Job(model, 64, noise=0.01, allowed=ADAPTIVE, noise_scale=scale)
    job.train(600)
    best = best_batch(model, scale, 64, 4096)
    assert goodput(model, job.plan.batch, scale, 64) >= best.goodput / 1.03
    assert job.regret() <= 0.01
    batches = [plan.batch for plan in job.stages]
    assert all(after <= 4 * before for before, after in pairwise(batches))
    assert job.plan.goodput == pytest.approx(best.goodput, rel=0.08)
    assert job.plan.noise_scale == scale
    # Two probes, then growth every few steps, and hardly a change when it is there.
    assert [plan.stage for plan in job.stages[:3]] == ["even", "spread", "optimal"]
    assert batches[0] == 64 < batches[1] <= 256
    assert efficiency(scale, batches[1], 64) >= WORTH  # the probe loses little at any speed
    grown = [n for n, pair in enumerate(pairwise(batches)) if len({*pair}) > 1]
    assert len(grown) <= 5
    due = job.decisions
    assert due[0] == WARM_UP + SHORT_PROBE
    assert due[1] == due[0] + SETTLE + SHORT_PROBE
    assert due[2] == due[1] + RAMP
    assert due[-1] - due[-2] > 50


def test_the_batch_shrinks_with_the_noise() -> None:
    model = truth(FOUR, *BUCKETS)
    job = Job(model, 64, allowed=ADAPTIVE, noise_scale=1e4)
    job.train(100)
    assert job.plan.batch > 200
    job.noise_scale = 0.0
    job.train(300)
    assert job.plan.batch == 64


def test_an_unknown_noise_scale_moves_nothing() -> None:
    job = Job(truth(FOUR, *BUCKETS), 64, allowed=ADAPTIVE)
    job.train(200)
    assert {plan.batch for plan in job.stages} == {64}


def test_beyond_memory_the_batch_is_accumulated() -> None:
    """Caps of 30 each: 120 at once, and more in micro-steps."""
    model = truth(FOUR, [0.3, 1.0], [0.1, 0.05])
    job = Job(model, 64, caps=[30] * 4, allowed=ADAPTIVE, noise_scale=1e5)
    job.train(300)
    plan = job.plan
    assert plan.batch > 120
    assert plan.micro_steps > 1
    assert max(plan.local_batches) <= 30 * plan.micro_steps
    whole = accumulated(job.model, plan.micro_steps)
    assert plan.predicted_seconds == pytest.approx(whole.step_seconds(plan.local_batches))


@pytest.mark.parametrize(
    ("scale", "caps", "batch"),
    [(None, None, 64), (0.0, None, 71), (64.0, None, 78), (1e5, None, 256), (1e5, 30, 120)],
)
def test_the_second_probe_is_as_large_as_noise_and_memory_allow(
    scale: float | None, caps: int | None, batch: int
) -> None:
    job = Job(*(truth(FOUR, *BUCKETS), 64), caps=[caps] * 4, allowed=ADAPTIVE, noise_scale=scale)
    job.train(WARM_UP + SHORT_PROBE + 1)
    assert job.plan.stage == "spread"
    assert job.plan.batch == batch
    assert job.plan.micro_steps == 1
    even = [16, 16, 16, 16]
    moved = [abs(b - a) / a for a, b in zip(even, job.plan.local_batches, strict=True)]
    # Two batches tell a device's line.
    assert all(moved)
    assert sum(each > 0.2 for each in moved) >= 2


def test_a_device_alone_probes_a_larger_batch_and_has_two_groups() -> None:
    model = truth(FOUR[:1], [1.0], [0.0])
    job = Job(model, 64, allowed=ADAPTIVE, noise_scale=2000.0)
    job.train(300)
    assert [plan.batch for plan in job.stages[:2]] == [64, 128]
    assert all(plan.micro_steps >= 2 for plan in job.stages)
    best = best_batch(accumulated(model, 2), 2000.0, 64, 4096)
    assert job.plan.batch == pytest.approx(best.batch, rel=0.35)


def test_a_range_of_one_batch_is_a_fixed_batch() -> None:
    job = Job(truth(FOUR, *BUCKETS), 64, allowed=BatchRange(64, 64, 64), noise_scale=1e5)
    job.train(100)
    assert {plan.batch for plan in job.stages} == {64}
    assert [plan.stage for plan in job.stages] == ["even", "spread", "optimal"]
