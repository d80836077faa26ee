"""Every method on the same masks: what it says of cells that nobody measured."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.estimation.method import (
    Measurements,
    Method,
    Predictor,
    filtered,
    likeness_alone,
    step_form_alone,
)
from benchmarks.estimation.tables import LEAST_CELLS, Split
from staves.estimation import Cell, CollaborativeFilter, History, Measured

PROBES = (1, 2, 4, 6, 8)
OBSERVED = 0.6
"""Share of a past job's cells that the history holds."""

LEVEL = 0.9

OWN: Mapping[str, Callable[[CollaborativeFilter], Predictor]] = {
    "staves": filtered,
    "staves, likeness alone": likeness_alone,
    "staves, step form alone": step_form_alone,
}


@dataclass
class Found:
    """What was found of one split with one seed: relative errors, and more of the filter alone."""

    errors: dict[tuple[str, int], list[NDArray[np.float64]]] = field(default_factory=dict)
    inside: dict[int, list[NDArray[np.bool_]]] = field(default_factory=dict)
    fit_seconds: list[float] = field(default_factory=list)
    predict_seconds: list[float] = field(default_factory=list)


def judge(split: Split, seed: int, others: Mapping[str, Method]) -> Found:
    """Return the errors of all methods where each group of jobs is new in turn.

    Each new job is probed where the filter would probe it; all methods get those probes.
    """
    found = Found()
    every = [cell for cells in split.table.values() for cell in cells]
    for group, new in split.groups.items():
        tested = [job for job in new if len(split.table[job]) >= LEAST_CELLS]
        if not tested:
            continue
        history = _history(split, new, np.random.default_rng([seed, zlib.crc32(group.encode())]))
        before = time.process_time()
        model = CollaborativeFilter.fit(history, every)
        found.fit_seconds.append(time.process_time() - before)
        predictors = {name: own(model) for name, own in OWN.items()}
        predictors |= {name: method(history, model.space) for name, method in others.items()}
        for job in tested:
            _judge_job(split.table[job], model, predictors, found)
    return found


def _history(split: Split, new: Iterable[str], rng: np.random.Generator) -> History:
    left_out = set(new)
    return History.of(
        (job, cell, throughput)
        for job, cells in split.table.items()
        if job not in left_out
        for cell, throughput in cells.items()
        if rng.random() < OBSERVED
    )


def _judge_job(
    truth: Mapping[Cell, float],
    model: CollaborativeFilter,
    predictors: Mapping[str, Predictor],
    found: Found,
) -> None:
    measured: Measurements = {}
    for probes in range(1, max(PROBES) + 1):
        probe = model.next_probe(measured, list(truth))
        assert probe is not None
        measured[probe.cell] = Measured(float(np.log(truth[probe.cell])))
        if probes not in PROBES:
            continue
        unseen = [cell for cell in truth if cell not in measured]
        real = np.array([truth[cell] for cell in unseen])
        for name, predict in predictors.items():
            errors = np.abs(np.exp(predict(measured, unseen)) / real - 1)
            found.errors.setdefault((name, probes), []).append(errors)
        before = time.process_time()
        prediction = model.predict(measured, unseen)
        found.predict_seconds.append(time.process_time() - before)
        low, high = prediction.interval(LEVEL)
        found.inside.setdefault(probes, []).append((low <= real) & (real <= high))


def summary(founds: Sequence[Found]) -> dict[str, Any]:
    """Return medians over seeds, and from where to where they go; errors in percent."""
    methods: dict[str, dict[str, Any]] = {}
    for name, probes in founds[0].errors:
        pooled = [np.concatenate(one.errors[name, probes]) for one in founds]
        methods.setdefault(name, {})[str(probes)] = {
            "median_percent": _spread([100 * float(np.median(one)) for one in pooled]),
            "mean_percent": _spread([100 * float(np.mean(one)) for one in pooled]),
        }
    return {
        "methods": methods,
        "inside_percent": {
            str(probes): _spread(
                [100 * float(np.concatenate(one.inside[probes]).mean()) for one in founds]
            )
            for probes in founds[0].inside
        },
        "fit_seconds": _spread([t for one in founds for t in one.fit_seconds]),
        "predict_seconds": _spread([t for one in founds for t in one.predict_seconds]),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": float(np.median(values)), "low": min(values), "high": max(values)}
