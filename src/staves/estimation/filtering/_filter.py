"""The estimator: past jobs make a model, a few measurements of a new job make a prediction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from staves.errors import InputError
from staves.estimation.filtering._cells import Cell, CellSpace
from staves.estimation.filtering._covariance import learn
from staves.estimation.filtering._gaussian import Gaussian, Row
from staves.estimation.filtering._history import History, Measurements
from staves.estimation.filtering._physical import PhysicalModel, learn_physical
from staves.estimation.filtering._prediction import Prediction
from staves.estimation.filtering._probe import PROBE_COST, Probe, choose_probe

NOISE = 1e-4
"""Variance of one round's ln(throughput): rounds repeat within about a percent."""

_MOST_CELLS, _MOST_JOBS = 150, 100


@dataclass(frozen=True, slots=True, eq=False)
class CollaborativeFilter:
    """What past jobs tell of any job.

    Args:
        space: the cells that it speaks of.
        jobs: ln(throughput) of a job that has not run, by its likeness to past ones.
        physical: the same by the step form.
    """

    space: CellSpace
    jobs: Gaussian
    physical: PhysicalModel

    @classmethod
    def fit(cls, history: History, cells: Iterable[Cell] = ()) -> CollaborativeFilter:
        """Return the model of a history. Without any job it knows the step form and peaks only.

        The work grows with jobs x (measured cells of each) x cells^2: a tenth of a second for 20
        jobs on 20 cells, some seconds for 80 on 130. Of a longer history the jobs count that were
        measured on most cells, the latest of them; of a wider one the types of `cells`.

        Args:
            history: of past jobs.
            cells: to be predicted, beside those of the history.

        Raises:
            InputError: there is no cell at all.
        """
        asked = tuple(cells)
        told = _telling(history, asked)
        space = CellSpace([*told.cells, *asked])
        if not len(space):
            raise InputError("neither history nor cells name a configuration", hint="name one")
        rows = [_row(space, measured) for measured in told.jobs.values()]
        return cls(space, learn(space, rows), learn_physical(space, rows))

    def predict(self, measured: Measurements, cells: Sequence[Cell] | None = None) -> Prediction:
        """Return what is believed of a job, in closed form but for the step form's fit.

        Of the two predictions the densities are averaged in the logarithm (Genest & Zidek,
        "Combining probability distributions", 1986): a normal again, whose precision is the mean of
        both, and whose mean weighs theirs by precision.

        Args:
            measured: of the job; may be empty. What was measured on other cells is left out.
            cells: of the space, in the order wanted; all of them by default.

        Raises:
            InputError: the space lacks a cell.
        """
        row = _row(self.space, measured)
        likeness = self.jobs.given(row.cells, row.values, NOISE)
        physical = self.physical.predict(row, NOISE)
        one, other = (1 / (np.maximum(part.variance, 0.0) + NOISE) for part in (likeness, physical))
        variance = 2 / (one + other)
        mean = (one * likeness.mean + other * physical.mean) / (one + other)
        if cells is None:
            return Prediction(self.space.cells, mean, variance)
        index = self.space.index(cells)
        return Prediction(tuple(cells), mean[index], variance[index])

    def next_probe(
        self, measured: Measurements, candidates: Sequence[Cell], cost: float = PROBE_COST
    ) -> Probe | None:
        """Return which cell to measure next; None where there is no candidate left.

        Args:
            measured: of the job; may be empty.
            candidates: feasible cells, which are also those whose uncertainty counts.
            cost: what the probe takes, as a share of the job's remaining time.

        Raises:
            InputError: the space lacks a cell, or the cost is negative or not finite.
        """
        left = [cell for cell in dict.fromkeys(candidates) if cell not in measured]
        row = _row(self.space, measured)
        believed = self.jobs.given(row.cells, row.values, NOISE)
        return choose_probe(believed, self.space, left, NOISE, cost)


def _telling(history: History, asked: Sequence[Cell]) -> History:
    """Return the part of a history that tells most of the cells asked for."""
    jobs = {name: measured for name, measured in history.jobs.items() if measured}
    if asked and len(history.cells | set(asked)) > _MOST_CELLS:
        types = {cell.device_type for cell in asked}
        jobs = {
            name: kept
            for name, measured in jobs.items()
            if (kept := {c: one for c, one in measured.items() if c.device_type in types})
        }
    if len(jobs) > _MOST_JOBS:
        latest_first = reversed(list(jobs))
        longest = sorted(latest_first, key=lambda name: len(jobs[name]), reverse=True)
        chosen = set(longest[:_MOST_JOBS])
        jobs = {name: measured for name, measured in jobs.items() if name in chosen}
    return History(jobs)


def _row(space: CellSpace, measured: Measurements) -> Row:
    there = {cell: one for cell, one in measured.items() if cell in space}
    values = np.array([one.log_throughput for one in there.values()], dtype=np.float64)
    return Row(space.index(there), values)
