"""Means over seeds, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

import numpy as np

_FIGURES = ("average_jct_seconds", "p50_jct_seconds", "p99_jct_seconds", "makespan_seconds")
_RESAMPLES, _TAIL = 10_000, 0.025


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean by the percentile bootstrap; None of fewer than two.

    10,000 resamples of a fixed seed. After Efron, "Bootstrap Methods" (Ann. Statist. 1979). Of few
    values it is too narrow: two give no more than their own range.
    """
    if len(values) < 2:
        return None
    given = np.array(values, dtype=np.float64)
    picks = np.random.default_rng(0).integers(0, len(given), (_RESAMPLES, len(given)))
    low, high = np.quantile(given[picks].mean(axis=1), [_TAIL, 1 - _TAIL]).tolist()
    return low, high


def over_seeds(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each policy that ran with several seeds its mean figures, with 95 % intervals.

    Args:
        runs: as `run` returned them. A figure that a seed has none of, since not all jobs ended, is
            None for all.
    """
    by_policy: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        by_policy.setdefault(run["policy"], []).append(run)
    return [
        {
            "policy": name,
            "seeds": [run["seed"] for run in same],
            **{figure: _told([run["summary"][figure] for run in same]) for figure in _FIGURES},
        }
        for name, same in by_policy.items()
        if len(same) > 1
    ]


def _told(values: Sequence[float | None]) -> dict[str, Any] | None:
    there = [value for value in values if value is not None]
    if len(there) < len(values):
        return None
    return {"mean": fmean(there), "interval": interval(there)}
