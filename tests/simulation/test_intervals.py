from __future__ import annotations

from statistics import NormalDist, fmean, stdev
from typing import Any

import numpy as np
import pytest

from staves.simulation import interval, over_seeds


def test_of_many_values_the_interval_is_that_of_the_normal_law() -> None:
    values = np.random.default_rng(4).normal(10.0, 2.0, 200).tolist()
    found = interval(values)
    assert found is not None
    half = NormalDist().inv_cdf(0.975) * stdev(values) / len(values) ** 0.5
    assert found == pytest.approx((fmean(values) - half, fmean(values) + half), abs=0.03)


def test_equal_values_leave_no_doubt_and_one_value_tells_none() -> None:
    assert interval([3.0, 3.0, 3.0]) == (3.0, 3.0)
    assert interval([3.0]) is None


def told(policy: str, seed: int, seconds: float | None) -> dict[str, Any]:
    names = ("average_jct_seconds", "p50_jct_seconds", "p99_jct_seconds", "makespan_seconds")
    return {"policy": policy, "seed": seed, "summary": dict.fromkeys(names, seconds)}


def test_a_policy_of_several_seeds_has_a_mean() -> None:
    runs = [told("a", 0, 1.0), told("b", 0, 5.0), told("a", 1, 3.0), told("c", 0, None)]
    (one,) = over_seeds(runs)
    assert (one["policy"], one["seeds"]) == ("a", [0, 1])
    assert one["average_jct_seconds"] == {"mean": 2.0, "interval": (1.0, 3.0)}
    (unfinished,) = over_seeds([*runs[3:], told("c", 1, 2.0)])
    assert unfinished["average_jct_seconds"] is None
