"""Ratios between policies, and their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import bootstrap

from staves.errors import InputError
from staves.simulation import FIGURES, compare, interval


def run(policy: str, workload: str, seed: int, jct: float | None) -> dict[str, Any]:
    return {
        "policy": policy,
        "workload": workload,
        "seed": seed,
        "summary": {
            "average_jct_seconds": jct,
            "p50_jct_seconds": jct,
            "p99_jct_seconds": jct,
            "makespan_seconds": None,
            "device_hours_per_job": 1.0,
            "finish_time_fairness": {"worst": 2.0, "mean": 1.0, "unfair_share": 0.0},
            "deadlines": {"jobs": 0, "met": 0, "share": None},
        },
    }


def test_ratios_are_paired() -> None:
    """Files differ by a factor of ten, and one policy takes 1.5 and 6 times as long on them: 3."""
    runs = [run("a", "x", 0, 10.0), run("a", "y", 0, 100.0)]
    runs += [run("b", "y", 0, 600.0), run("b", "x", 0, 15.0)]
    told = compare(runs, "a")
    a, b = told["policies"]
    assert a["ratio"]["average_jct_seconds"]["value"] == pytest.approx(1.0)
    assert (a["ratio"]["average_jct_seconds"]["low"]) == pytest.approx(1.0)
    ratio = b["ratio"]["average_jct_seconds"]
    assert ratio["value"] == pytest.approx(3.0)
    assert ratio["pairs"] == 2
    assert 1.5 - 1e-9 <= ratio["low"] < 3.0 < ratio["high"] <= 6.0 + 1e-9
    assert b["mean"]["average_jct_seconds"] == pytest.approx(307.5)
    assert b["ratio"]["makespan_seconds"] is None
    assert set(b["ratio"]) == set(FIGURES)


def test_equal_runs_give_equal_intervals_in_any_order() -> None:
    draw = np.random.default_rng(1)
    runs = [run(p, "x", s, float(draw.uniform(1, 9))) for p in "ab" for s in range(8)]
    shuffled = [runs[n] for n in draw.permutation(len(runs))]
    told = {one["policy"]: one for one in compare(runs, "a")["policies"]}
    again = {one["policy"]: one for one in compare(shuffled, "a")["policies"]}
    assert told == again


def test_the_interval_is_that_of_another_bootstrap() -> None:
    values = np.random.default_rng(0).lognormal(1.0, 0.7, 40)
    found = interval(values.tolist())
    other = bootstrap((values,), np.mean, method="percentile", rng=1).confidence_interval
    width = other.high - other.low
    assert found == pytest.approx((other.low, other.high), abs=0.05 * width)


def test_wrong_sets_of_runs_are_refused() -> None:
    with pytest.raises(InputError, match="no run"):
        compare([run("a", "x", 0, 1.0)], "b")
    with pytest.raises(InputError, match="two runs"):
        compare([run("a", "x", 0, 1.0), run("a", "x", 0, 2.0)], "a")
