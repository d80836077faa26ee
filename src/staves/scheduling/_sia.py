"""Sia: adaptive jobs on unlike devices, by an integer programme of normalised goodputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import (
    Table,
    as_table,
    in_words,
    keeps_guaranteed,
    permitted,
    single,
    usable,
)
from staves.scheduling._policy import Policy
from staves.scheduling._reasons import Reasons
from staves.scheduling._rigid import impossible
from staves.scheduling._settled import settled
from staves.scheduling._view import Counts, Decision, JobView, Option, Reason, View
from staves.scheduling.heet._choose import Choices, choose

POWER, NONE = -0.5, 1.1
"""Fairness power, and the penalty of a job that has nothing; section 4 and its released code."""

RESTART_SECONDS = {
    "bert": 120.0,
    "cifar10": 30.0,
    "deepspeech2": 25.0,
    "imagenet": 250.0,
    "yolov3": 45.0,
}
"""What a restart costs by application, as its authors measured it; theirs is 30 for others."""

_OTHER_RESTART = 30.0
_DIGITS = 2
_GAP = 1e-4
_SHOWN = 4  # options beside which the choice is explained


class Sia(Policy):
    """The sum over jobs of normalised goodput to the power of -1/2 is made smallest.

    After Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster
    scheduling" (SOSP '23, section 3.4), with the constants of its released code. A job may have,
    of one type, 1, 2, 4, ... devices of a node, or whole nodes, up to its scale limit. Its
    goodputs are divided by its smallest, and once it is older than a restart takes, c, those of
    changes are multiplied by max(age - restarts c, 0) / (age + c). The power is rounded to 2
    decimals, as in that code, and a job that gets nothing counts 1.1. What is in a pause stays as
    it is. All jobs weigh the same.
    """

    name = "sia"
    placing = "aligned"
    estimator = "sia"
    round_seconds = 60.0
    at_events = False

    def decide(self, view: View) -> Decision:
        """Return the decision of the smallest sum."""
        done, free = settled(view, pausing=True)
        chosen = dict(done.chosen)
        jobs = [job for job in view.jobs if job.id not in chosen]
        sizes = tuple(_sizes(view, g) for g in range(len(view.types)))
        weighed = [_weigh(view, job, _configurations(job, free, sizes)) for job in jobs]
        result = choose(
            [
                Choices(
                    table, NONE - value, job.current is not None and job.guaranteed > 0, job.current
                )
                for job, (table, _, value) in zip(jobs, weighed, strict=True)
            ],
            tuple(free),
            gap=_GAP,
        )
        for job, (table, _, _), row in zip(jobs, weighed, result.rows, strict=True):
            if row is not None:
                chosen[job.id] = tuple(table[row].tolist())

        def reasons() -> dict[str, Reason]:
            told = dict(done.reasons)
            for job, one, row in zip(jobs, weighed, result.rows, strict=True):
                told[job.id] = _reason(view, job, *one, row)
            return told

        return Decision(
            chosen,
            Reasons(reasons),
            result.value,
            result.bound,
            {
                job.id: (table, NONE - value)
                for job, (table, _, value) in zip(jobs, weighed, strict=True)
            },
        )


def _sizes(view: View, g: int) -> tuple[int, ...]:
    """Return how many devices of the type a job may have: 1, 2, 4, ... in a node, or whole nodes.

    A whole node is one of the largest; 1 is among them even where the largest has one device.
    """
    nodes = [node[g] for node in view.nodes if node[g]]
    if not nodes:
        return ()
    whole = max(nodes)
    within = [2**k for k in range(whole.bit_length()) if 2**k < whole]
    several = [whole * n for n in range(1, len(nodes) + 1) if whole * n <= view.capacity[g]]
    return *within, *several


class _Terms(NamedTuple):
    """What of a job decides what it may have; as `JobView`, which it stands for here."""

    minimum: int
    maximum: int
    types: frozenset[int] | None
    mix: bool
    current: Counts | None
    guaranteed: int
    scale_limit: int | None


def _configurations(job: JobView, free: Sequence[int], sizes: tuple[tuple[int, ...], ...]) -> Table:
    """Return what the job may have, (C, G), its minimum and what it has now among it."""
    terms = _Terms(*(getattr(job, name) for name in _Terms._fields))
    return _of_terms(terms, usable(job, free), sizes)


@lru_cache(maxsize=4096)  # most jobs are, between two decisions, as they were
def _of_terms(terms: _Terms, room: Counts, sizes: tuple[tuple[int, ...], ...]) -> Table:
    least = max(1, terms.minimum)
    most = math.inf if terms.scale_limit is None else max(least, terms.scale_limit)
    rows = [
        single(len(room), g, size)
        for g, there in enumerate(room)
        for size in sorted({*sizes[g], least})
        if least <= size <= min(there, most)
    ]
    if terms.current is not None and terms.current not in rows:
        held = all(n <= there for n, there in zip(terms.current, room, strict=True))
        rows += [terms.current] if held else []
    table = as_table(rows, len(room))
    table = table[permitted(terms, table) & keeps_guaranteed(terms, room, table)]
    table.flags.writeable = False  # it is remembered
    return table


def _weigh(
    view: View, job: JobView, table: Table
) -> tuple[Table, NDArray[np.float64], NDArray[np.float64]]:
    """Return the configurations that run the job, their goodputs, and what each counts, (C,)."""
    if not len(table):
        return table, np.zeros(0), np.zeros(0)
    rates = job.rates(table)
    if not (rates > 0).all():
        table, rates = table[rates > 0], rates[rates > 0]
    if not len(table):
        return table, rates, rates
    normal = rates / rates.min()
    if job.current is not None:
        changed = (table != np.array(job.current)).any(axis=1)
        normal = np.where(changed, normal * _restart_factor(view, job), normal)
    with np.errstate(divide="ignore"):
        value = (normal**POWER).round(_DIGITS)
    return table, rates, np.where(np.isfinite(value), value, 1e3)


def _restart_factor(view: View, job: JobView) -> float:
    """Return what a change leaves of a job's goodput; Pollux, OSDI '21, section 4.2.1.

    The age is that since it was submitted. Young jobs change for nothing.
    """
    cost = RESTART_SECONDS.get(job.application, _OTHER_RESTART)
    age = view.now - job.submitted
    return max(age - job.restarts * cost, 0.0) / (age + cost) if age >= cost else 1.0


def _reason(
    view: View,
    job: JobView,
    table: Table,
    rates: NDArray[np.float64],
    value: NDArray[np.float64],
    row: int | None,
) -> Reason:
    best = np.argsort(value, kind="stable")[:_SHOWN].tolist()
    others = tuple(_option(job, table, rates, value, k) for k in best if k != row)
    if row is None:
        return _nothing(view, job, others)
    return Reason(
        f"{in_words(table[row].tolist(), view.types)}: best for all jobs together, by its goodput"
        " over its smallest.",
        _option(job, table, rates, value, row),
        tuple(replace(option, why="worth less to all jobs together") for option in others),
    )


def _option(
    job: JobView, table: Table, rates: NDArray[np.float64], value: NDArray[np.float64], row: int
) -> Option:
    rate = float(rates[row])
    return Option(tuple(table[row].tolist()), rate, job.remaining / rate, NONE - float(value[row]))


def _nothing(view: View, job: JobView, others: tuple[Option, ...]) -> Reason:
    if not others:
        return impossible(view, job) or Reason("No configuration that is free for it runs it.")
    why = "other jobs have more of it"
    return Reason(
        "Other jobs have more of the devices that it could use.",
        None,
        tuple(replace(option, why=why) for option in others),
    )
