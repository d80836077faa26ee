"""What is compared: from past jobs, and measurements of a new one, to the cells not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from staves.estimation import Cell, CollaborativeFilter, History, Measured
from staves.estimation.filtering import NOISE, CellSpace, Row

Array = NDArray[np.float64]
Measurements = dict[Cell, Measured]
Index = NDArray[np.int64]


class Predictor(Protocol):
    """What a method has learned."""

    def __call__(self, measured: Measurements, asked: Sequence[Cell]) -> Array:
        """Return ln(throughput) of the cells asked, given what a new job was measured at."""
        ...


class Method(Protocol):
    """A way to learn from past jobs."""

    def __call__(self, history: History, space: CellSpace) -> Predictor:
        """Return what is learned of a history about the cells of `space`."""
        ...


def filtered(model: CollaborativeFilter) -> Predictor:
    """Return the filter's own prediction."""
    return lambda measured, asked: model.predict(measured, asked).mean


def likeness_alone(model: CollaborativeFilter) -> Predictor:
    """Return the filter without the step form."""

    def predict(measured: Measurements, asked: Sequence[Cell]) -> Array:
        row = _row(model.space, measured)
        found: Array = model.jobs.given(row.cells, row.values, NOISE).mean[model.space.index(asked)]
        return found

    return predict


def step_form_alone(model: CollaborativeFilter) -> Predictor:
    """Return the filter without likeness to past jobs."""

    def predict(measured: Measurements, asked: Sequence[Cell]) -> Array:
        found = model.physical.predict(_row(model.space, measured), NOISE)
        return found.mean[model.space.index(asked)]

    return predict


def _row(space: CellSpace, measured: Mapping[Cell, Measured]) -> Row:
    values = np.array([one.log_throughput for one in measured.values()])
    return Row(space.index(measured), values)


def deviations(history: History, space: CellSpace) -> Array:
    """Return ln(throughput) of past jobs less devices x peak and less the job's own mean, (J, C).

    That is how the other factorisations see the table: without it, they spend their factors on
    units. What was not measured is nan.
    """
    table = np.full((len(history.jobs), len(space)), np.nan)
    for j, measured in enumerate(history.jobs.values()):
        row = _row(space, measured)
        values = row.values - space.start[row.cells]
        table[j, row.cells] = values - values.mean()
    return table


def column_means(table: Array) -> Array:
    """Return the mean of each column's known cells, (C,); 0 where none is known."""
    known = ~np.isnan(table)
    means: Array = np.where(known, table, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return means


def own_deviations(space: CellSpace, measured: Measurements) -> tuple[Index, Array, float]:
    """Return the same of a new job: cells, deviations, and the level that was taken off."""
    row = _row(space, measured)
    values = row.values - space.start[row.cells]
    level = float(values.mean())
    return row.cells, values - level, level
