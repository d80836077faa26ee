from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staves.estimation import (
    BatchLimits,
    GradientStatistics,
    SiaRates,
    ThroughputFit,
    choose_batch,
)

FIT = ThroughputFit(0.02, 0.001, 0.05, 0.001, 0.01, 0.0005, 1.5)
LIMITS = BatchLimits(32, 32, 1024, 8, 64)
GRADIENTS = GradientStatistics(1.0, 20.0)


def goodput(nodes: int, devices: int, batch: float) -> float:
    """Return the goodput of one batch, by plain arithmetic; 0 where it is not allowed."""
    share = batch / devices
    extra = math.ceil(share / LIMITS.local_most - 1e-8) - 1
    if devices == 1 and share > LIMITS.reference + 1e-8:
        extra = max(extra, 1)
    local = math.ceil(share / (extra + 1) - 1e-8)
    if not LIMITS.local_least <= local <= LIMITS.local_most:
        return 0.0
    whole = devices * local * (extra + 1)
    scale = whole / LIMITS.reference
    gain = (GRADIENTS.noise + GRADIENTS.square) / (GRADIENTS.noise / scale + GRADIENTS.square)
    return whole / float(FIT.step_seconds(nodes, devices, local, extra)) * gain / scale


@given(st.integers(1, 32), st.integers(1, 4))
@settings(max_examples=200)
def test_the_best_of_the_batches_that_are_tried(devices: int, nodes: int) -> None:
    nodes = min(nodes, devices)
    lowest = max(LIMITS.smallest, LIMITS.local_least * devices)
    tried = [lowest * (LIMITS.largest / lowest) ** (k / 49) for k in range(50)]
    choice = choose_batch(FIT, GRADIENTS, LIMITS, np.array([nodes]), np.array([devices]))
    assert choice.goodput[0] == pytest.approx(max(goodput(nodes, devices, b) for b in tried))
    whole = devices * choice.local[0] * (choice.accumulation[0] + 1)
    assert choice.goodput[0] == pytest.approx(goodput(nodes, devices, whole))


def test_many_configurations_are_as_one_by_one() -> None:
    nodes, devices = np.array([1, 1, 1, 2, 4]), np.array([1, 2, 4, 8, 16])
    together = choose_batch(FIT, GRADIENTS, LIMITS, nodes, devices)
    for k in range(5):
        one = choose_batch(FIT, GRADIENTS, LIMITS, nodes[k : k + 1], devices[k : k + 1])
        assert together.goodput[k] == one.goodput[0]
        assert together.local[k] == one.local[0]


def test_a_fixed_batch_stays() -> None:
    limits = BatchLimits(32, 128, 128, 8, 64)
    devices = np.array([1, 2, 4, 16])
    choice = choose_batch(FIT, GRADIENTS, limits, np.ones(4, dtype=np.int64), devices)
    assert (devices * choice.local * (choice.accumulation + 1)).tolist() == [128.0] * 4
    none = choose_batch(FIT, GRADIENTS, BatchLimits(32, 16, 16, 8, 4), np.array([1]), np.array([4]))
    assert none.goodput.tolist() == [0.0]  # no local batch is allowed


def rates(fits: dict[int, ThroughputFit]) -> SiaRates:
    return SiaRates(
        fits, GRADIENTS, dict.fromkeys((0, 1, 2), LIMITS), (4, 8, 8), (10.0, 25.0, 50.0)
    )


def test_types_that_were_not_tried_are_projected_from_the_first_that_was() -> None:
    other = ThroughputFit(0.01, 0.0002, 0.5, 0.01, 0.4, 0.01, 1.0)
    table = np.array([[4, 0, 0], [0, 8, 0], [0, 0, 8], [0, 0, 16]])
    got = rates({1: FIT, 0: other})(table)
    on_one = choose_batch(FIT, GRADIENTS, LIMITS, np.array([1, 2]), np.array([8, 16])).goodput
    on_other = choose_batch(other, GRADIENTS, LIMITS, np.array([1]), np.array([4])).goodput
    assert got == pytest.approx([on_other[0], on_one[0], 2 * on_one[0], 2 * on_one[1]])


def test_projected_devices_stand_on_the_nodes_of_the_type_that_is_known() -> None:
    got = rates({0: FIT})(np.array([[0, 8, 0]]))
    two_nodes = choose_batch(FIT, GRADIENTS, LIMITS, np.array([2]), np.array([8])).goodput
    assert got == pytest.approx(2.5 * two_nodes)


def test_mixed_and_unknown_types_do_not_run() -> None:
    known = SiaRates({0: FIT}, GRADIENTS, {0: LIMITS}, (4, 8), (10.0, math.nan))
    assert known(np.array([[1, 1], [0, 1], [0, 0]])).tolist() == [0.0] * 3


def test_before_a_first_step_everything_is_worth_one() -> None:
    unknown = SiaRates({}, None, dict.fromkeys((0, 1), LIMITS), (4, 8), (10.0, 25.0))
    assert unknown(np.array([[1, 0], [0, 1], [2, 0]])).tolist() == [1.0, 1.0, 1.0]
