"""The total batch by goodput, against brute force; and step times under accumulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.convergence import efficiency
from staves.steptime import Communication, Device, Line, StepTimeModel, integer_split
from staves.training._accumulation import accumulated, single
from staves.training._batch_choice import GROWTH, WORTHWHILE, BatchRange, choose_batch
from staves.training._timing import StepRecord

seeds = st.integers(0, 2**32 - 1)


def random_model(rng: np.random.Generator, caps: bool) -> StepTimeModel:
    def line() -> Line:
        return Line(float(rng.uniform(0, 0.01)), float(rng.uniform(1e-4, 2e-3)))

    devices = tuple(
        Device(str(i), "x", line(), line(), max_batch=int(rng.integers(6, 13)) if caps else None)
        for i in range(int(rng.integers(1, 5)))
    )
    return StepTimeModel(devices, Communication((0.4, 1.0), (0.004, 0.002)))


def seconds(model: StepTimeModel, batch: int, micro_steps: int) -> float:
    """The least step time of a batch in so many micro-steps."""
    whole = accumulated(model, micro_steps)
    room = sum(d.max_batch if d.max_batch is not None else batch for d in whole.devices)
    return float("inf") if room < batch else integer_split(whole, batch).step_seconds


@settings(max_examples=15, deadline=None)
@given(seeds, st.booleans(), st.floats(1, 2000))
def test_is_the_best_of_all_batches(seed: int, caps: bool, scale: float) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng, caps)
    current = int(rng.integers(4, 20))
    allowed = BatchRange(4, 4, int(rng.integers(current, 80)))
    most = min(allowed.most, GROWTH * current)
    micro_steps = next(a for a in range(1, 15) if np.isfinite(seconds(model, current, a)))
    values = {
        (b, a): b / seconds(model, b, a) * efficiency(scale, b, 4)
        for b in range(4, most + 1)
        for a in range(1, 15 if caps else 2)
    }
    got = choose_batch(
        model, scale, allowed, current=current, micro_steps=micro_steps, least_micro_steps=1
    )
    kept = values[current, micro_steps]
    if max(values.values()) > WORTHWHILE * kept * (1 + 1e-9):
        # With caps the search over micro-steps ends where more of them are no better.
        assert got.goodput >= max(values.values()) * (0.97 if caps else 1 - 1e-9)
    else:
        assert (got.batch, got.micro_steps) == (current, micro_steps)
    assert got.goodput == pytest.approx(values[got.batch, got.micro_steps])
    assert allowed.least <= got.batch <= most


def test_growth_is_bounded_and_goes_both_ways() -> None:
    device = Device("d", "x", Line(0.1, 1e-4), Line(0.1, 2e-4))
    model = StepTimeModel((device,), Communication((1.0,), (0.0,)))
    allowed = BatchRange(16, 16, 10**6)

    def choose(scale: float, current: int) -> int:
        choice = choose_batch(
            model, scale, allowed, current=current, micro_steps=1, least_micro_steps=1
        )
        return choice.batch

    assert choose(1e6, 16) == 64
    assert choose(1e6, 64) == 256
    assert choose(0.0, 256) == 16
    # T = 0.2 + 3e-4 B peaks at sqrt(phi 0.2 / 3e-4).
    assert choose(600.0, 400) == pytest.approx((600 * 0.2 / 3e-4) ** 0.5, abs=1)
    assert choose(600.0, 600) == 600, "not worth a change"


@given(seeds, st.integers(1, 6), st.integers(1, 8))
def test_micro_steps_add_up(seed: int, micro_steps: int, each: int) -> None:
    """A device on its own: so many forward and backward passes, one after the other."""
    rng = np.random.default_rng(seed)
    forward, backward = (Line(*rng.uniform(0, 0.01, 2)) for _ in range(2))
    device = Device("d", "x", forward, backward, max_batch=each)
    model = StepTimeModel((device,), Communication((1.0,), (0.003,)))
    whole = accumulated(model, micro_steps)
    assert whole.devices[0].max_batch == each * micro_steps
    passes = forward.seconds(each) + backward.seconds(each)
    assert whole.step_seconds([each * micro_steps]) == pytest.approx(micro_steps * passes + 0.003)
    record = StepRecord(
        step=0,
        plan=0,
        samples=each * micro_steps,
        forward=micro_steps * passes - backward.seconds(each),
        backward=backward.seconds(each),
        ready=(),
        wire=(),
        step_seconds=0.0,
        micro_steps=micro_steps,
    )
    alone = single(record)
    assert (alone.samples, alone.micro_steps) == (each, 1)
    assert alone.forward == pytest.approx(forward.seconds(each))
    assert alone.backward == pytest.approx(backward.seconds(each))


def test_why_a_batch_is_taken_or_kept() -> None:
    device = Device("d", "x", Line(0.1, 1e-4), Line(0.1, 2e-4))
    model = StepTimeModel((device,), Communication((1.0,), (0.0,)))

    def why(scale: float, current: int, most: int = 10**6) -> str:
        allowed = BatchRange(16, 16, most)
        choice = choose_batch(
            model, scale, allowed, current=current, micro_steps=1, least_micro_steps=1
        )
        assert choice.verdict is not None
        assert choice.verdict.chosen == choice.batch
        return choice.verdict.describe()

    best = round((600 * 0.2 / 3e-4) ** 0.5)
    values = [b / (0.2 + 3e-4 * b) * efficiency(600.0, b, 16) for b in (600, best, 16, 64)]
    assert why(600.0, 600) == (
        f"batch stays 600: {best} would gain {(values[1] / values[0] - 1) * 100:.0f} %"
    )
    assert why(600.0, best) == f"batch stays {best}: the best now"
    assert why(1e6, 64, most=64) == "batch stays 64: the largest allowed, and the best"
    gain = f"{(values[3] / values[2] - 1) * 100:.0f} %"
    assert why(600.0, 16) == f"batch 16 -> 64: {gain} more goodput"
