from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.steptime.clusters import best_by_force, feasible, random_model, seeds, time_of

from staves.errors import InputError
from staves.steptime import (
    Communication,
    Device,
    Line,
    StepTimeModel,
    even_split,
    integer_split,
    integer_step_seconds,
)

NO_WIRE = Communication((1.0,), (0.0,))
NOTHING = Line(0.0, 0.0)


def check_split(model: StepTimeModel, batch: int, *, leave_out: bool) -> None:
    expected = best_by_force(model, batch, leave_out=leave_out)
    if math.isinf(expected):
        with pytest.raises(InputError):
            integer_split(model, batch, allow_leave_out=leave_out)
        return
    split = integer_split(model, batch, allow_leave_out=leave_out)
    assert sum(split.local_batches) == batch
    assert split.step_seconds == pytest.approx(expected, rel=1e-14)
    worst = 0.0
    for i, (device, held) in enumerate(zip(model.devices, split.local_batches, strict=True)):
        if i in split.left_out:
            assert held == 0
            assert device.min_batch > 0 or time_of(model, i, 0) > split.step_seconds
            continue
        assert device.min_batch <= held <= (batch if device.max_batch is None else device.max_batch)
        worst = max(worst, time_of(model, i, held))
    assert split.step_seconds == pytest.approx(worst, rel=1e-14)


@given(seeds)
@settings(max_examples=500)
def test_equals_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng, int(rng.integers(1, 5)), idle=seed % 2 == 0)
    for leave_out in (False, True):
        check_split(model, int(rng.integers(1, 61)), leave_out=leave_out)


def greedy_heap(model: StepTimeModel, batch: int) -> float:
    local = [d.min_batch for d in model.devices]
    heap = [(time_of(model, i, k + 1), i) for i, k in enumerate(local)]
    heap = [x for x in heap if (model.devices[x[1]].max_batch or 10**9) > local[x[1]]]
    heapq.heapify(heap)
    for _ in range(batch - sum(local)):
        _, i = heapq.heappop(heap)
        local[i] += 1
        if local[i] < (model.devices[i].max_batch or 10**9):
            heapq.heappush(heap, (time_of(model, i, local[i] + 1), i))
    return max(time_of(model, i, k) for i, k in enumerate(local))


@pytest.mark.parametrize("n", [1, 7, 50, 300])
@pytest.mark.parametrize("seed", range(6))
def test_equals_the_greedy_heap(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, batch = feasible(lambda: random_model(rng, n, bounds=seed % 2 == 0), 20 * n, rng)
    split = integer_split(model, batch)
    assert sum(split.local_batches) == batch
    assert split.step_seconds == pytest.approx(greedy_heap(model, batch), rel=1e-14)


@given(seeds)
@settings(max_examples=150)
def test_a_sweep_equals_each_split(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, batch = feasible(lambda: random_model(rng, 4, idle=True), 60, rng)
    lowest = int(rng.integers(max(1, sum(d.min_batch for d in model.devices)), batch + 1))
    for leave_out in (False, True):
        expected = [
            integer_split(model, b, allow_leave_out=leave_out).step_seconds
            for b in range(lowest, batch + 1)
        ]
        seconds = integer_step_seconds(model, lowest, batch, allow_leave_out=leave_out)
        assert seconds.tolist() == expected


def test_a_sweep_refuses_what_has_no_split() -> None:
    model = StepTimeModel((Device("d", "x", Line(0.0, 1.0), NOTHING, 3, 9),), NO_WIRE)
    for lowest, highest in ((2, 5), (3, 10), (0, 5), (6, 5)):
        with pytest.raises(InputError):
            integer_step_seconds(model, lowest, highest)
    assert integer_step_seconds(model, 3, 9).tolist() == [3, 4, 5, 6, 7, 8, 9]
    with_gap = integer_step_seconds(model, 1, 4, allow_leave_out=True)
    assert with_gap.tolist() == [math.inf, math.inf, 3, 4]


@pytest.mark.parametrize("batch", [1, 10**6 + 1, 10**9, 2**53])
def test_huge_batches_are_exact(batch: int) -> None:
    rng = np.random.default_rng(1)
    model = random_model(rng, 6, bounds=False, floors=0.0)
    split = integer_split(model, batch)
    assert sum(split.local_batches) == batch
    if split.step_seconds > max(time_of(model, i, 0) for i in range(6)) * (1 + 1e-13):
        # Within any shorter step the devices could not hold the batch.
        shorter = split.step_seconds * (1 - 1e-13)
        assert sum(most_within(model, i, shorter, batch) for i in range(6)) < batch


def most_within(model: StepTimeModel, i: int, seconds: float, batch: int) -> int:
    low, high = 0, batch
    while low < high:
        middle = (low + high + 1) // 2
        if time_of(model, i, middle) <= seconds:
            low = middle
        else:
            high = middle - 1
    return low


def test_samples_that_cost_less_than_the_clock_can_tell() -> None:
    tiny = Line(1.0, 1e-19)
    model = StepTimeModel(tuple(Device(f"d{i}", "x", tiny, tiny) for i in range(3)), NO_WIRE)
    split = integer_split(model, 3001)
    assert sum(split.local_batches) == 3001
    assert split.step_seconds == 2.0
    assert max(split.local_batches) - min(split.local_batches) <= 1


def test_all_samples_free() -> None:
    model = StepTimeModel(tuple(Device(f"d{i}", "x", NOTHING, NOTHING) for i in range(3)), NO_WIRE)
    assert integer_split(model, 7).local_batches == (3, 2, 2)


def test_like_devices_get_like_shares() -> None:
    line = Line(0.003, 0.0007)
    model = StepTimeModel(tuple(Device(f"d{i}", "x", line, line) for i in range(5)), NO_WIRE)
    for batch in (5, 12, 500, 502, 10**8 + 3):
        local = integer_split(model, batch).local_batches
        assert sum(local) == batch
        assert max(local) - min(local) <= 1


def test_a_costly_rest_forces_a_sample() -> None:
    fast = Device("fast", "x", Line(0.0, 0.01), NOTHING)
    costly = Device("costly", "x", Line(0.0, 0.5), NOTHING, idle=9.0)
    model = StepTimeModel((fast, costly), NO_WIRE)
    assert integer_split(model, 10).local_batches == (9, 1)
    assert integer_split(model, 10, allow_leave_out=True).left_out == (1,)
    both = StepTimeModel((costly, Device("other", "x", Line(0.0, 0.5), NOTHING, idle=8.0)), NO_WIRE)
    assert integer_split(both, 1).local_batches == (1, 0)
    assert integer_split(both, 1).step_seconds == 8.0


def test_leaves_out_who_only_delays() -> None:
    fast = Device("fast", "x", Line(0.01, 0.001), NOTHING)
    slow = Device("slow", "x", Line(5.0, 0.001), NOTHING)
    model = StepTimeModel((fast, slow), NO_WIRE)
    assert integer_split(model, 100).step_seconds == 5.0 + 0.001 * 0
    split = integer_split(model, 100, allow_leave_out=True)
    assert (split.local_batches, split.left_out) == ((100, 0), (1,))
    assert split.step_seconds == pytest.approx(0.11)


def test_minimums_may_need_a_knapsack() -> None:
    devices = tuple(
        Device(f"d{i}", "x", Line(0.0, 0.1 + 0.01 * i), NOTHING, low, low + 1)
        for i, low in enumerate((6, 10, 14, 15, 22))
    )
    model = StepTimeModel(devices, NO_WIRE)
    for batch in range(1, 75):
        check_split(model, batch, leave_out=True)


def test_knapsacks_of_many_like_devices_stay_small() -> None:
    devices = tuple(
        Device(f"d{i}", "x", Line(0.01 * (i % 3), 0.001), NOTHING, 1000 + i % 7, 4000)
        for i in range(60)
    )
    split = integer_split(StepTimeModel(devices, NO_WIRE), 20_011, allow_leave_out=True)
    assert sum(split.local_batches) == 20_011


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, 2**53 + 1])
def test_refuses_what_is_no_batch(batch: int) -> None:
    model = random_model(np.random.default_rng(0), 2, bounds=False)
    for leave_out in (False, True):
        with pytest.raises(InputError, match="batch"):
            integer_split(model, batch, allow_leave_out=leave_out)


def test_takes_numpy_integers_and_gives_plain_ones() -> None:
    model = random_model(np.random.default_rng(0), 2, bounds=False)
    for split in (integer_split(model, np.int64(7)), even_split(model, np.int64(7))):  # type: ignore[arg-type]
        assert [type(k) for k in (split.batch, *split.local_batches)] == [int] * 3


def test_even_split_respects_caps_and_minimums() -> None:
    line = Line(0.0, 0.001)

    def model(*bounds: tuple[int, int | None]) -> StepTimeModel:
        return StepTimeModel(
            tuple(Device(f"d{i}", "x", line, line, *b) for i, b in enumerate(bounds)), NO_WIRE
        )

    assert even_split(model((0, None), (0, None), (0, None)), 8).local_batches == (3, 3, 2)
    assert even_split(model((0, 2), (0, None), (0, None)), 12).local_batches == (2, 5, 5)
    assert even_split(model((7, None), (0, None), (0, None)), 9).local_batches == (7, 1, 1)
    assert even_split(model((0, 1), (0, 1), (0, 1)), 3).local_batches == (1, 1, 1)
    with pytest.raises(InputError, match="above"):
        even_split(model((0, 1), (0, 1)), 3)


@given(seeds)
@settings(max_examples=100)
def test_even_split_is_as_even_as_bounds_allow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, batch = feasible(lambda: random_model(rng, 6), 120, rng)
    local = even_split(model, batch).local_batches
    assert sum(local) == batch
    for a, more in zip(model.devices, local, strict=True):
        assert more >= a.min_batch
        for b, less in zip(model.devices, local, strict=True):
            if more > less + 1:  # then `a` may not give, or `b` not take
                assert more == a.min_batch or less == b.max_batch


EXTREMES = st.sampled_from([0.0, 5e-324, 1e-300, 1e-200, 1e-20, 1e-3, 1.0, 1e9, 1e18])


@given(
    st.lists(
        st.tuples(EXTREMES, EXTREMES, EXTREMES, st.sampled_from([None, 5000, 2**53])),
        min_size=1,
        max_size=3,
    ),
    EXTREMES,
    st.sampled_from([1, 7, 10**9, 2**53]),
    st.booleans(),
)
def test_extremes_neither_overflow_nor_hang(
    lines: list[tuple[float, float, float, int | None]], wire: float, batch: int, leave_out: bool
) -> None:
    """Warnings are errors in these tests."""
    devices = tuple(
        Device(f"d{i}", "x", Line(a, b), Line(c, b), max_batch=cap)
        for i, (a, b, c, cap) in enumerate(lines)
    )
    model = StepTimeModel(devices, Communication((0.5, 1.0), (wire, 0.0)))
    if any(cap is None for *_, cap in lines):
        split = integer_split(model, batch, allow_leave_out=leave_out)
        assert sum(split.local_batches) == batch
        assert math.isfinite(split.step_seconds)
        assert (model.idle_share(split.local_batches, split.left_out) >= 0).all()
        assert sum(even_split(model, batch).local_batches) == batch
