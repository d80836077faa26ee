"""What is counted as settled, and what follows a batch that changes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.training import settling
from benchmarks.training.systems.prescribed import Prescribed
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.steptime import Communication, Device, Line, StepTimeModel
from staves.training import Learner, System, VirtualClock, VirtualJob, VirtualTruth
from staves.training._batch_choice import BatchRange

MODEL = StepTimeModel(
    tuple(
        Device(f"device-{i}", f"type-{i}", Line(1e-3, seconds), Line(2e-3, 2 * seconds))
        for i, seconds in enumerate((1e-3, 2e-3, 4e-3))
    ),
    Communication((0.5, 1.0), (1e-3, 1e-3)),
)


def splits(system: System, first: int, most: int, steps: int) -> list[tuple[int, ...]]:
    job = VirtualJob.on(MODEL.devices, first, BatchRange(first, first, most))
    return settling._splits(VirtualClock(VirtualTruth(MODEL), system, job), steps)


def best(batch: int) -> float:
    """The best step by brute force."""
    every = product(range(batch + 1), repeat=2)
    return min(MODEL.step_seconds((i, j, batch - i - j)) for i, j in every if i + j <= batch)


def test_settled_counts_the_steps_that_are_off_by_more_than_a_hundredth() -> None:
    good = min(
        ((i, j, 21 - i - j) for i, j in product(range(22), repeat=2) if i + j <= 21),
        key=MODEL.step_seconds,
    )
    bad = (7, 7, 7)
    found = settling.settled(VirtualTruth(MODEL), [bad, bad, good, good, bad, (14, 14, 14)])
    assert found.reached == [2, 1]
    assert (found.missed, found.outside, found.after_first, found.changes) == (1, 4, 1, 3)
    lost = [
        3 * (MODEL.step_seconds(bad) / best(21) - 1),
        MODEL.step_seconds((14,) * 3) / best(42) - 1,
    ]
    assert found.longer == pytest.approx(sum(lost) / 6)


@settings(max_examples=20)
@given(st.lists(st.integers(12, 400), min_size=2, max_size=4), st.integers(1, 3))
def test_controllers_follow_the_batch_and_even_out_computing(
    batches: list[int], window: int
) -> None:
    each = 200

    def batch(step: int) -> int:
        return batches[step // each]

    first, most = min(batches), max(batches)
    for system in (settling.Following(batch, window, 0.1), settling.AtOnce(batch, window, 1.0)):
        job = VirtualJob.on(MODEL.devices, batch(0), BatchRange(first, first, most))
        clock = VirtualClock(VirtualTruth(MODEL), system, job)
        made = settling._splits(clock, each * len(batches))
        assert [sum(split) for split in made] == [batch(step) for step in range(len(made))]
        times = [
            device.forward.seconds(b) + device.backward.seconds(b)
            for device, b in zip(MODEL.devices, made[-1], strict=True)
        ]
        a_sample = 3 * 4e-3
        assert max(times) - min(times) <= 3 * a_sample


def test_what_is_prescribed_is_split_by_the_learners_model() -> None:
    made = splits(Prescribed(lambda s, own: 64 if s.step < 40 else 150), 64, 150, 60)
    assert made[:40] == splits(Learner(), 64, 150, 40)
    assert {sum(split) for split in made[40:]} == {150}
    assert MODEL.step_seconds(made[-1]) == pytest.approx(best(150))


def test_draws_have_ratios_that_differ_fivefold_and_steps_that_wait_for_the_link() -> None:
    for seed in range(20):
        model = settling._drawn(np.random.default_rng(seed))
        ratios = [d.forward.per_sample / d.backward.per_sample for d in model.devices]
        assert max(ratios) / min(ratios) == pytest.approx(5)
        assert (
            sum(model.communication.seconds)
            > settling._computing(model).step_seconds(
                [settling.UNEQUAL_BATCH // settling.DEVICES] * settling.DEVICES
            )
            * 0.2
        )
