"""The noise scale that a run reports, on a real model with frozen weights, by brute force."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.noise_scale import CASES, measure_case


@pytest.mark.parametrize(
    "name", ["48 and 16, sgd", pytest.param("48 and 16 by 12, adamw", marks=pytest.mark.soak)]
)
def test_is_that_of_every_samples_own_gradient(name: str, tmp_path: Path) -> None:
    """Within 10 % where it is about the batch or less; with and without accumulation."""
    found = measure_case(CASES[name], folder=tmp_path)
    print(f"{name}: {found}")
    assert found["brute_force"]["scale"] <= 1.5 * found["batch"]
    assert found["covered"]
    assert abs(found["error"]) <= 0.1


@pytest.mark.soak
def test_where_it_is_far_above_the_batch_its_interval_holds_it(tmp_path: Path) -> None:
    found = measure_case(CASES["trained, 48 and 16, sgd"], folder=tmp_path)
    print(found)
    assert found["brute_force"]["scale"] > 4 * found["batch"]
    assert found["covered"]
    assert abs(found["noise_error"]) <= 0.1
