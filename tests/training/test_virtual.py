"""Training in virtual time: real gradients, and a clock that follows the declared truth."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from staves.convergence import NoiseScale
from staves.errors import InputError, TrainingError
from staves.steptime import StepTimeModel, integer_split
from staves.training import (
    Adaptive,
    Contention,
    Decision,
    Learner,
    Situation,
    System,
    VirtualClock,
    VirtualJob,
    VirtualStep,
    VirtualTrainer,
    VirtualTruth,
    permutation,
)
from staves.training._accumulation import accumulated
from staves.training._adaptation import Adaptation
from staves.training._noise import Measured
from staves.training._timing import StepRecord
from staves.training._virtual_truth import take_step
from tests.training.virtual import truth

SAMPLES, FEATURES, CLASSES = 500, 12, 5
BUCKETS = [0.3, 0.7, 1.0], [0.002, 0.002, 0.001]
THREE = truth([0.4e-3, 0.9e-3, 2.0e-3], *BUCKETS)
FOUR = truth([0.6e-3, 0.9e-3, 1.8e-3, 1.8e-3], *BUCKETS)


def data(samples: int = SAMPLES) -> TensorDataset:
    random = torch.Generator().manual_seed(3)
    inputs = torch.randn(samples, FEATURES, generator=random, dtype=torch.float64)
    weights = torch.randn(FEATURES, CLASSES, generator=random, dtype=torch.float64)
    noise = torch.randn(samples, CLASSES, generator=random, dtype=torch.float64)
    return TensorDataset(inputs, (inputs @ weights + 2 * noise).argmax(1))


def model() -> nn.Module:
    torch.manual_seed(5)
    layers = nn.Sequential(
        nn.Linear(FEATURES, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, CLASSES)
    )
    return layers.double()


def loss_of(module: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
    inputs, classes = batch
    return functional.cross_entropy(module(inputs), classes)


def trainer(
    module: nn.Module,
    of: VirtualTruth,
    batch: int | Adaptive,
    *,
    system: System | None = None,
    seed: int = 0,
    rate: float = 0.05,
) -> VirtualTrainer:
    optimizer = torch.optim.SGD(module.parameters(), lr=rate, momentum=0.9, weight_decay=1e-3)
    return VirtualTrainer(
        module, optimizer, loss_of, data(), of, batch=batch, system=system, seed=seed
    )


class Moving(System):
    """Another system: a split by a function of the step."""

    def __init__(self, *splits: tuple[int, ...], micro_steps: int = 1) -> None:
        self.splits, self.micro_steps = splits, micro_steps
        self.job: VirtualJob | None = None
        self.seen: list[Sequence[StepRecord]] = []

    def begin(self, job: VirtualJob) -> None:
        self.job = job

    def decide(self, situation: Situation) -> Decision:
        return Decision(self.splits[situation.step % len(self.splits)], self.micro_steps)

    def measured(self, records: Sequence[StepRecord]) -> None:
        self.seen.append(records)


def one_process(module: nn.Module, steps: Sequence[VirtualStep], *, seed: int) -> list[float]:
    """Train on the very same batches in plain torch; return the losses."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    inputs, classes = data().tensors
    losses, place, epoch = [], 0, 0
    for step in steps:
        if step.epoch != epoch:
            place, epoch = 0, step.epoch
        order = torch.from_numpy(permutation(seed, epoch, SAMPLES)[place : place + step.batch])
        place += step.batch
        loss = loss_of(module, (inputs[order], classes[order]))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("batch", [64, Adaptive(32, max=256, learning_rate="none")])
def test_training_is_that_of_one_process(batch: int | Adaptive) -> None:
    """Over ends of epochs, changes of the split and of the batch."""
    module = model()
    alone = copy.deepcopy(module)
    steps = list(trainer(module, VirtualTruth(THREE, 0.03), batch, seed=7).steps(90))
    losses = one_process(alone, steps, seed=7)
    np.testing.assert_allclose([step.loss for step in steps], losses, rtol=1e-12)
    for ours, theirs in zip(module.parameters(), alone.parameters(), strict=True):
        assert torch.linalg.vector_norm(ours - theirs) <= 1e-12 * torch.linalg.vector_norm(theirs)
    assert len({step.local_batches for step in steps}) > 3
    if isinstance(batch, Adaptive):
        assert len({step.batch for step in steps}) > 3


@pytest.mark.parametrize("micro_steps", [1, 3])
def test_without_jitter_the_clock_is_the_sum_of_the_truths_steps(micro_steps: int) -> None:
    of = VirtualTruth(THREE, pause_seconds=0.25)
    system = Moving((30, 12, 6), (30, 12, 6), (20, 28, 0), micro_steps=micro_steps)
    whole = accumulated(THREE, micro_steps)
    clock = 0.0
    for step in trainer(model(), of, 48, system=system).steps(25):
        assert step.seconds == pytest.approx(whole.step_seconds(step.local_batches), rel=1e-12)
        assert step.pause_seconds == (0.25 if step.number and step.number % 3 != 1 else 0.0)
        clock += step.seconds + step.pause_seconds
        assert step.clock == pytest.approx(clock, rel=1e-12)
    # 500 samples: ten whole batches and a rest, which nobody measures.
    assert [records[0].step for records in system.seen] == [s for s in range(25) if s % 11 != 10]


Step = tuple[StepTimeModel, list[int], int]

steps_of_clusters: st.SearchStrategy[Step] = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(0.1e-3, 5e-3), min_size=n, max_size=n).map(
            lambda speeds: truth(speeds, *BUCKETS)
        ),
        st.lists(st.integers(0, 64), min_size=n, max_size=n),
        st.integers(1, 4),
    )
)


@given(steps_of_clusters)
def test_a_step_takes_what_the_step_time_model_says(case: Step) -> None:
    of, split, micro_steps = case
    records = take_step(of, split, micro_steps=micro_steps)
    expected = accumulated(of, micro_steps).step_seconds(split)
    for record in records:
        assert record.step_seconds == pytest.approx(expected, rel=1e-12)


def test_a_device_without_samples_idles_as_declared() -> None:
    devices = (replace(THREE.devices[0], idle=0.5), *THREE.devices[1:])
    of = StepTimeModel(devices, THREE.communication)
    for split in ([0, 10, 10], [5, 10, 10]):
        assert take_step(of, split)[0].step_seconds == pytest.approx(of.step_seconds(split))


def test_jitter_is_of_the_declared_size_and_means_are_longer() -> None:
    of = VirtualTruth(FOUR, 0.04)
    noise = of.noise(np.random.default_rng(0))
    steps = [take_step(FOUR, (30, 22, 12, 12), noise=noise) for _ in range(2000)]
    forward = np.log([records[0].forward for records in steps])
    assert np.median(forward) == pytest.approx(
        math.log(FOUR.devices[0].forward.seconds(30)), abs=0.004
    )
    assert forward.std() == pytest.approx(0.04, rel=0.1)
    mean = np.mean([records[0].step_seconds for records in steps])
    assert mean > FOUR.step_seconds((30, 22, 12, 12))


def test_the_noise_scale_is_unbiased_on_frozen_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside every sample's own gradient; its shares are unequal, and it has micro-steps."""
    module = model()
    inputs, classes = data().tensors
    rows = []
    for place in range(SAMPLES):
        module.zero_grad()
        loss_of(module, (inputs[place : place + 1], classes[place : place + 1])).backward()  # type: ignore[no-untyped-call]
        rows.append(
            torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])
        )
    module.zero_grad()
    gradients = torch.stack(rows)
    mean = gradients.mean(0)
    variance = float((gradients - mean).square().sum() / (SAMPLES - 1))
    square = float(mean.square().sum()) - variance / SAMPLES
    found: list[NoiseScale] = []
    committed = Adaptation.committed

    def spy(self: Adaptation, batch: int, measured: Measured | None) -> None:
        found.extend([] if measured is None else [measured.noise_scale])
        committed(self, batch, measured)

    monkeypatch.setattr(Adaptation, "committed", spy)
    system = Moving((60, 26, 10), micro_steps=2)
    list(trainer(module, VirtualTruth(THREE), Adaptive(96), system=system, rate=0.0).steps(900))
    assert len(found) > 300
    # Batches of one pass make up for each other, so that the means err by less than this.
    for values, expected in (
        ([step.noise for step in found], variance),
        ([step.gradient_square for step in found], square),
    ):
        assert abs(np.mean(values) - expected) <= 3 * np.std(values) / math.sqrt(len(values))


@settings(max_examples=5, deadline=None)
@given(
    st.lists(st.floats(0.2e-3, 4e-3), min_size=2, max_size=5),
    st.integers(0, 1000),
)
def test_the_learner_comes_within_one_percent_of_the_best_split(
    speeds: list[float], seed: int
) -> None:
    of = truth(speeds, *BUCKETS)
    batch = 40 * len(speeds)
    steps = list(trainer(model(), VirtualTruth(of, 0.02), batch, seed=seed).steps(200))
    best = integer_split(of, batch).step_seconds
    whole = [step for step in steps if step.batch == batch]
    assert np.median([of.step_seconds(s.local_batches) for s in whole[-60:]]) <= 1.01 * best


def test_the_batch_grows_to_the_one_of_greatest_goodput() -> None:
    job = trainer(model(), VirtualTruth(THREE, 0.02), Adaptive(16, max=256))
    steps = list(job.steps(progress=400))
    assert max(step.batch for step in steps) > 32
    assert steps[-1].progress >= 400 > steps[-2].progress
    assert len(steps) < 400
    assert steps[-1].noise_scale is not None
    assert isinstance(job.system, Learner)
    assert job.system.plan.verdict is not None


@pytest.mark.parametrize("unit", ["steps", "seconds"])
def test_contention_is_noticed_and_balanced(unit: str) -> None:
    first = 110 if unit == "steps" else 110 * FOUR.step_seconds((30, 22, 14, 14))
    of = VirtualTruth(
        FOUR,
        0.02,
        (Contention(3, 2.5, start=first, unit="steps" if unit == "steps" else "seconds"),),
    )
    job = trainer(model(), of, 80)
    learner = job.system
    assert isinstance(learner, Learner)
    seconds = []
    alarmed: list[int] = []
    for step in job.steps(190):
        seconds.append(step)
        alarmed += [step.number] if learner.alarms and not alarmed else []
    changed = next(s.number for s in seconds if of.at(s.number, s.clock - s.seconds) != FOUR)
    assert 60 < changed < 150
    assert changed < alarmed[0] <= changed + 15
    now = of.at(190, job.clock)
    best = integer_split(now, 80).step_seconds
    assert now.step_seconds(learner.plan.local_batches) <= 1.03 * best


def test_a_seed_says_all() -> None:
    def run(seed: int) -> list[VirtualStep]:
        of = VirtualTruth(FOUR, 0.05, (Contention(0, 3.0, 40, 70),), pause_seconds=0.1)
        return list(trainer(model(), of, Adaptive(32, max=256), seed=seed).steps(100))

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_going_on_is_as_if_it_had_never_stopped() -> None:
    of = VirtualTruth(THREE, 0.05)
    job, whole = trainer(model(), of, 64), trainer(model(), of, 64)
    parts = [*job.steps(30), *islice(job.steps(100), 25)]
    assert parts == list(whole.steps(55))


def test_steps_of_a_known_loss_are_timed_anew() -> None:
    """The clock alone goes as it does when it is trained by."""
    of = VirtualTruth(THREE, 0.05, (Contention(1, 2.0, 50),), pause_seconds=0.1)
    steps = list(trainer(model(), of, 50, seed=3).steps(120))
    clock = VirtualClock(of, Learner(), VirtualJob.on(THREE.devices, 50, None), seed=3)
    for step in steps:
        decision, pause = clock.decide()
        assert (decision.local_batches, pause) == (step.local_batches, step.pause_seconds)
        assert clock.advance() == step.seconds
    assert clock.seconds == steps[-1].clock


def test_caps_are_kept_by_accumulation() -> None:
    pairs = zip(THREE.devices, (8, 8, 4), strict=True)
    devices = tuple(replace(device, max_batch=cap) for device, cap in pairs)
    of = VirtualTruth(StepTimeModel(devices, THREE.communication), 0.02)
    module = model()
    alone = copy.deepcopy(module)
    steps = list(trainer(module, of, 60, seed=2).steps(60))
    assert all(step.micro_steps >= 3 for step in steps)
    assert all(
        b <= cap * step.micro_steps
        for step in steps
        for b, cap in zip(step.local_batches, (8, 8, 4), strict=True)
    )
    losses = one_process(alone, steps, seed=2)
    np.testing.assert_allclose([step.loss for step in steps], losses, rtol=1e-12)


def test_another_system_is_told_the_job_and_not_its_times() -> None:
    devices = (replace(THREE.devices[0], max_batch=40, min_batch=2), *THREE.devices[1:])
    system = Moving((30, 12, 6))
    trainer(model(), VirtualTruth(StepTimeModel(devices, THREE.communication)), 48, system=system)
    job = system.job
    assert job is not None
    assert (job.batch, job.caps, job.allowed) == (48, (40, None, None), None)
    assert [device.name for device in job.devices] == ["device-0", "device-1", "device-2"]
    profile = job.devices[0].profile
    assert profile is not None
    assert profile.min_batch == 2
    assert profile.forward.seconds(7) != THREE.devices[0].forward.seconds(7)


@pytest.mark.parametrize("split", [(30, 18), (40, 12, 6), (30, -2, 20), (16, 16, 17)])
def test_a_decision_that_cannot_be_is_refused(split: tuple[int, ...]) -> None:
    devices = (replace(THREE.devices[0], max_batch=32), *THREE.devices[1:])
    of = VirtualTruth(StepTimeModel(devices, THREE.communication))
    with pytest.raises(TrainingError, match="the system decides"):
        next(trainer(model(), of, 48, system=Moving(split)).steps(1))


def test_what_cannot_be_declared_is_refused() -> None:
    with pytest.raises(InputError, match="jitter"):
        VirtualTruth(THREE, -0.1)
    with pytest.raises(InputError, match="none of the 3 devices"):
        VirtualTruth(THREE, contention=(Contention(3, 2.0),))
    with pytest.raises(InputError, match="factor"):
        Contention(0, math.inf)
    with pytest.raises(InputError, match="without an end"):
        next(trainer(model(), VirtualTruth(THREE), 48).steps())
    with pytest.raises(InputError, match="not a positive integer"):
        trainer(model(), VirtualTruth(THREE), 0)
