from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from tests.steptime.clusters import best_by_force, largest_batch, random_model, seeds

from staves.convergence import _goodput, best_batch, efficiency, gain, goodput
from staves.errors import InputError
from staves.steptime import Communication, Device, Line, StepTimeModel


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
    monkeypatch.setattr(_goodput, "_SWEEP", 1)
    monkeypatch.setattr(_goodput, "_LEAF", 3)
    for seed in range(150):
        check(seed)


@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("phi", [50.0, 2e4, 3e6, math.inf])
def test_bounds_and_enumeration_agree(
    monkeypatch: pytest.MonkeyPatch, leave_out: bool, phi: float
) -> None:
    model = random_model(np.random.default_rng(5), 12, bounds=False, idle=True)
    by_bounds = best_batch(model, phi, 64, 400_000, allow_leave_out=leave_out)
    monkeypatch.setattr(_goodput, "_SWEEP", 1 << 20)
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
