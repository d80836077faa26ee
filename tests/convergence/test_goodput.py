from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.steptime.clusters import best_by_force, largest_batch, random_model, seeds

from staves.convergence import _search, best_batch, efficiency, gain, goodput
from staves.errors import InputError
from staves.steptime import Communication, Device, Line, StepTimeModel, integer_split


def worth(phi: float, batch: int, reference: int) -> float:
    return 1.0 if math.isinf(phi) else (phi + reference) / (phi + batch)


def best_value(
    model: StepTimeModel, phi: float, reference: int, highest: int, *, leave_out: bool
) -> float:
    """The greatest goodput over every batch, each split by brute force; 0 where there is none."""
    steps = {b: best_by_force(model, b, leave_out=leave_out) for b in range(reference, highest + 1)}
    return max((b / t * worth(phi, b, reference) for b, t in steps.items()), default=0.0)


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng, int(rng.integers(1, 5)), idle=seed % 2 == 0)
    reference = int(rng.integers(1, 10))
    highest = int(rng.integers(reference, 50))
    phi = math.inf if seed % 10 == 0 else 10 ** rng.uniform(0, 4)
    for leave_out in (False, True):
        top = largest_batch(model, highest)
        expected = best_value(model, phi, reference, top, leave_out=leave_out)
        if expected == 0:
            with pytest.raises(InputError):
                best_batch(model, phi, reference, highest, allow_leave_out=leave_out)
            continue
        best = best_batch(model, phi, reference, highest, allow_leave_out=leave_out)
        assert best.goodput == pytest.approx(expected, rel=1e-12)
        assert reference <= best.batch <= highest
        assert best.batch == best.split.batch == sum(best.split.local_batches)
        assert best.goodput == goodput(model, best.batch, phi, reference, allow_leave_out=leave_out)


@given(seeds)
@settings(max_examples=150)
def test_best_of_all_batches(seed: int) -> None:
    check(seed)


def test_best_of_all_batches_by_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_search, "_SWEEP", 1)
    monkeypatch.setattr(_search, "_LEAF", 3)
    for seed in range(150):
        check(seed)


@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("phi", [50.0, 2e4, 3e6, math.inf])
def test_bounds_and_enumeration_agree(
    monkeypatch: pytest.MonkeyPatch, leave_out: bool, phi: float
) -> None:
    model = random_model(np.random.default_rng(5), 12, bounds=False, idle=True)
    by_bounds = best_batch(model, phi, 64, 400_000, allow_leave_out=leave_out)
    monkeypatch.setattr(_search, "_SWEEP", 1 << 20)
    assert by_bounds == best_batch(model, phi, 64, 400_000, allow_leave_out=leave_out)


def test_a_single_line_peaks_at_the_root() -> None:
    """T = u + v B peaks at sqrt(phi u / v)."""
    device = Device("d", "x", Line(0.1, 0.001), Line(0.0, 0.0))
    model = StepTimeModel((device,), Communication((1.0,), (0.0,)))
    assert best_batch(model, 400.0, 1, 10**9).batch == 200
    assert best_batch(model, 400.0, 300, 10**9).batch == 300
    assert best_batch(model, 400.0, 1, 150).batch == 150
    assert best_batch(model, math.inf, 1, 10**9).batch == 10**9
    assert best_batch(model, 0.0, 7, 10**9).batch == 7


def of(*lines: tuple[float, float], **options: Any) -> StepTimeModel:
    """Devices of (fixed, per_sample), with no communication."""
    nothing = Line(0.0, 0.0)
    devices = tuple(
        Device(f"d{i}", "x", Line(*line), nothing, **options) for i, line in enumerate(lines)
    )
    return StepTimeModel(devices, Communication((1.0,), (0.0,)))


@pytest.mark.parametrize("highest", [1000, 10**6, 10**9, 2**53])
@pytest.mark.parametrize("leave_out", [False, True])
def test_among_equal_step_times_the_end_counts(highest: int, leave_out: bool) -> None:
    def best(model: StepTimeModel, phi: float, reference: int) -> int:
        return best_batch(model, phi, reference, highest, allow_leave_out=leave_out).batch

    for lines in [(0.1, 0.0)], [(0.1, 0.0)] * 2, [(0.1, 1e-300)], [(0.1, 0.0), (1e-9, 1e18)]:
        assert best(of(*lines), 0.0, 1) == 1
        assert best(of(*lines), 0.0, 17) == 17
        for phi in (1e-300, 1.0, 100.0, 1e9, 1e300, math.inf):
            assert best(of(*lines), phi, 1) == highest
    # One device of rising, one of constant time: beyond 100 samples of the first, constant.
    mixed = of((0.0, 0.001), (0.1, 0.0))
    assert best(mixed, 100.0, 200) == highest
    assert best(mixed, 0.0, 200) == 200


def test_the_search_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A goodput that hardly depends on the batch, and a peak where 2^53 is near."""
    monkeypatch.setattr(_search, "_ALLOWANCE", 1 << 19)
    for lines, phi in (
        ([(0.0, 0.001), (0.0, 0.0007)], 1e18),
        ([(0.1, 0.001), (0.3, 0.0007)], 1e27),
        ([(1.0, 1e-20)], 1e4),
    ):
        best = best_batch(of(*lines), phi, 1, 2**53)
        assert 1 <= best.batch <= 2**53
        for batch in (1, 2**20, 2**40, 2**53):
            assert best.goodput >= goodput(of(*lines), batch, phi, 1)


@pytest.mark.parametrize("phi", [0.0, 3.0, 700.0, 1e12])
def test_ties_by_exact_fractions(phi: float, monkeypatch: pytest.MonkeyPatch) -> None:
    model = of((0.3, 1e-17), (0.1, 0.0), (0.29, 0.001))

    def exact(batch: int) -> tuple[Fraction, int]:
        seconds = Fraction(integer_split(model, batch).step_seconds)
        return Fraction(batch) / (seconds * (Fraction(phi) + batch)), -batch

    expected = max(range(1, 600), key=exact)
    assert best_batch(model, phi, 1, 599).batch == expected
    monkeypatch.setattr(_search, "_SWEEP", 1)
    monkeypatch.setattr(_search, "_LEAF", 3)
    assert best_batch(model, phi, 1, 599).batch == expected


@pytest.mark.parametrize("seconds", [5e-324, 1e-300])
def test_refuses_an_infinite_goodput(seconds: float) -> None:
    for highest in (3, 10**9):
        with pytest.raises(InputError, match="takes no time"):
            best_batch(of((seconds, 0.0)), 10.0, 1, highest)
    with pytest.raises(InputError, match="takes no time"):
        goodput(of((seconds, 0.0)), 3, 10.0, 1)


def test_refuses_an_empty_range() -> None:
    line = Line(0.0, 0.001)
    devices = tuple(Device(f"d{i}", "x", line, line, 4, 6) for i in range(2))
    model = StepTimeModel(devices, Communication((1.0,), (0.0,)))
    for reference, highest in ((13, 20), (5, 7), (9, 8)):
        with pytest.raises(InputError, match="no batch to choose"):
            best_batch(model, 10.0, reference, highest)
    with pytest.raises(InputError, match="no batch from 1 to 3 has a split"):
        best_batch(model, 10.0, 1, 3, allow_leave_out=True)
    assert best_batch(model, 10.0, 1, 5, allow_leave_out=True).batch in (4, 5)
    for bad in (0, math.nan, math.inf):
        with pytest.raises(InputError, match="batch must be positive and finite"):
            best_batch(model, 10.0, 8, bad)  # type: ignore[arg-type]
    for phi in (-1.0, math.nan):
        with pytest.raises(InputError, match="noise scale"):
            best_batch(model, phi, 8, 12)


def test_refuses_steps_without_time() -> None:
    nothing = Line(0.0, 0.0)
    model = StepTimeModel((Device("d", "x", nothing, nothing),), Communication((1.0,), (0.0,)))
    with pytest.raises(InputError, match="takes no time"):
        best_batch(model, 10.0, 1, 5)
    with pytest.raises(InputError, match="takes no time"):
        goodput(model, 3, 10.0, 1)


def test_efficiency_and_gain() -> None:
    assert efficiency(100, 100, 100) == 1
    assert efficiency(100, 300, 100) == 0.5
    assert efficiency(0, 300, 100) == pytest.approx(1 / 3)
    assert efficiency(math.inf, 300, 100) == 1
    assert gain(100, 300, 100) == 1.5
    assert gain(math.inf, 300, 100) == 3
    for bad in ((-1, 1, 1), (math.nan, 1, 1), (1, 0, 1), (1, 1, 0), (1, math.inf, 1)):
        with pytest.raises(InputError):
            efficiency(*bad)
