"""The training benchmark's systems: what defines each of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from benchmarks.training.runs import stepped
from benchmarks.training.systems import (
    DDP,
    LBBSP,
    AdaptDLLike,
    Oracle,
    Proportional,
    ProportionalAdaptive,
)
from benchmarks.training.systems.batch_by_line import GROWTH, WORTHWHILE
from benchmarks.training.systems.lb_bsp import FIRST_MOVE, WINDOW

from staves.convergence import efficiency
from staves.steptime import Communication, Device, Line, StepTimeModel
from staves.training import Contention, Decision, System, VirtualClock, VirtualJob, VirtualTruth
from staves.training._batch_choice import BatchRange


def truth(
    per_sample: Sequence[float],
    *,
    fixed: float = 0.0,
    wire: float = 0.0,
    contention: tuple[Contention, ...] = (),
) -> VirtualTruth:
    """Devices without jitter, half of whose computing is the backward pass."""
    devices = [
        Device(f"d{i}", f"t{i}", Line(fixed / 2, each / 2), Line(fixed / 2, each / 2))
        for i, each in enumerate(per_sample)
    ]
    model = StepTimeModel(tuple(devices), Communication((1.0,), (wire,)))
    return VirtualTruth(model, contention=contention)


def decisions(
    of: VirtualTruth,
    system: System,
    batch: int,
    steps: int,
    *,
    allowed: BatchRange | None = None,
    noise_scale: float | None = None,
) -> list[Decision]:
    """Return what a system decides before each step."""
    clock = VirtualClock(of, system, VirtualJob.on(of.model.devices, batch, allowed))
    made = []
    for _ in range(steps):
        made.append(clock.decide(noise_scale)[0])
        clock.advance()
    return made


def test_plain_ddp_splits_evenly_for_good() -> None:
    made = decisions(truth([0.01, 0.05, 0.02]), DDP(32), 32, 50)
    assert {tuple(sorted(d.local_batches)) for d in made} == {(10, 11, 11)}
    assert len(set(made)) == 1


def test_proportional_is_the_throughput_share() -> None:
    made = decisions(truth([0.01, 0.02, 0.04]), Proportional(70), 70, 60)
    assert made[0].local_batches in {(24, 23, 23), (23, 24, 23), (23, 23, 24)}
    assert made[-1].local_batches == (40, 20, 10)
    # A fixed time makes slow devices look even slower at a small share: it knows no lines.
    loaded = decisions(truth([0.01, 0.02, 0.04], fixed=0.5), Proportional(70), 70, 60)
    even = np.array(loaded[0].local_batches)
    speeds = even / (0.5 + np.array([0.01, 0.02, 0.04]) * even)
    assert loaded[-1].local_batches == pytest.approx(70 * speeds / speeds.sum(), abs=1)


def test_lb_bsp_moves_from_the_slowest_to_the_fastest_by_its_rule() -> None:
    slow, batch = [0.01, 0.02, 0.04], 120
    made = [d.local_batches for d in decisions(truth(slow), LBBSP(batch), batch, 40 * WINDOW)]
    assert made[: WINDOW + 1] == [made[0]] * WINDOW + [made[WINDOW]]
    move = max(1, round(FIRST_MOVE * batch))
    for place in range(WINDOW, len(made), WINDOW):
        before, after = np.array(made[place - 1]), np.array(made[place])
        times = before * np.array(slow)
        change = after - before
        assert change.sum() == 0
        if change.any():
            moved = change.max()
            assert moved <= move
            move = moved
            assert (change == moved).argmax() == times.argmin()
            assert (change == -moved).argmax() == times.argmax()
    # It ends within a sample of the slowest device.
    best = min(max(np.array(s) * slow) for s in _splits(batch, made[-1], 6))
    assert max(np.array(made[-1]) * slow) <= best + max(slow)


@pytest.mark.parametrize("batch", [20, 35, 50, 64])
def test_lb_bsp_ends_at_the_best_split_of_two_devices(batch: int) -> None:
    slow = np.array([0.01, 0.04])
    made = decisions(truth(slow.tolist()), LBBSP(batch), batch, 40 * WINDOW)[-1].local_batches
    best = min(max((b, batch - b) * slow) for b in range(batch + 1))
    assert max(made * slow) == pytest.approx(best)


def _splits(batch: int, around: Sequence[int], width: int) -> list[tuple[int, ...]]:
    near = range(-width, width + 1)
    return [
        (around[0] + a, around[1] + b, batch - around[0] - a - around[1] - b)
        for a, b in product(near, near)
        if around[0] + a >= 0 and around[1] + b >= 0 and batch >= sum(around[:2]) + a + b
    ]


def test_the_oracle_has_the_best_of_all_splits() -> None:
    of = truth([0.01, 0.025, 0.04], fixed=0.03, wire=0.02)
    batch = 17
    everything = [(a, b, batch - a - b) for a in range(batch + 1) for b in range(batch + 1 - a)]
    best = min(of.model.step_seconds(split) for split in everything)
    (made,) = set(decisions(of, Oracle(of, batch), batch, 5))
    assert of.model.step_seconds(made.local_batches) == pytest.approx(best)


def test_the_oracle_follows_contention_at_once() -> None:
    of = truth([0.01, 0.01], contention=(Contention(1, 3.0, start=10),))
    made = decisions(of, Oracle(of, 40), 40, 12)
    assert made[9].local_batches == (20, 20)
    assert made[10].local_batches == (30, 10)


def test_the_adaptive_oracle_has_the_best_batch_and_split_by_enumeration() -> None:
    of = truth([0.01, 0.03], fixed=0.1, wire=0.05)
    allowed = BatchRange(4, 4, 40)

    def goodput(split: Sequence[int]) -> float:
        batch = sum(split)
        return batch / of.model.step_seconds(split) * efficiency(30.0, batch, 4)

    best = max(goodput((a, b)) for a in range(41) for b in range(41) if 4 <= a + b <= 40)
    made = decisions(of, Oracle(of), 4, 3, allowed=allowed, noise_scale=30.0)[-1]
    assert goodput(made.local_batches) == pytest.approx(best)


@pytest.mark.parametrize("make", [AdaptDLLike, ProportionalAdaptive])
def test_line_followers_end_at_the_best_batch_of_their_own_split(make: type[System]) -> None:
    of = truth([0.001, 0.001, 0.001, 0.001], fixed=0.2)
    allowed = BatchRange(16, 16, 4096)
    made = decisions(of, make(), 16, 300, allowed=allowed, noise_scale=2000.0)
    batches = [d.batch for d in made]
    for before, after in pairwise(batches):
        assert after <= GROWTH * before
    even = {batch: 0.2 + 0.001 * -(-batch // 4) for batch in range(16, 4097)}
    goodput = {b: b / seconds * efficiency(2000.0, b, 16) for b, seconds in even.items()}
    assert goodput[batches[-1]] * WORTHWHILE >= max(goodput.values())


def test_adaptdl_like_splits_evenly_whatever_the_devices() -> None:
    of, allowed = truth([0.001, 0.01], fixed=0.1), BatchRange(16, 16, 1024)
    for made in decisions(of, AdaptDLLike(), 16, 100, allowed=allowed, noise_scale=500.0):
        assert abs(made.local_batches[0] - made.local_batches[1]) <= 1


def test_proportional_adaptive_splits_each_batch_by_throughput() -> None:
    of, allowed = truth([0.001, 0.004]), BatchRange(16, 16, 1024)
    made = decisions(of, ProportionalAdaptive(), 16, 100, allowed=allowed, noise_scale=500.0)
    last = made[-1]
    assert last.batch > 16
    assert last.local_batches == pytest.approx((0.8 * last.batch, 0.2 * last.batch), abs=1)


def test_a_faster_system_has_an_earlier_clock() -> None:
    of = truth([0.01, 0.03], fixed=0.01)
    even, best = (stepped(of, make, 40, 0, steps=20) for make in (DDP(40), Oracle(of, 40)))
    assert len(even) == 21
    assert best[-1] < even[-1]
    assert even[-1] == pytest.approx(20 * (0.01 + 0.03 * 20))
