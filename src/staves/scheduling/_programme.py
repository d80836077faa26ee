"""Linear and integer programmes: the one place that gives them to HiGHS.

Through highspy, HiGHS's own package, rather than scipy's `milp` and `linprog`: policies solve
thousands of small programmes in a simulation, and of these scipy's checks and its loops over
columns took half the time. Without presolve, which saves less here than it takes, a programme of a
thousand columns is solved in a third of it.

What HiGHS takes for 0 is absolute: 1e-7 for limits and prices, 1e-6 between whole numbers. Whoever
states a programme scales it so that what matters is near 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.errors import StavesError

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

_BY_COLUMN, _MINIMISE = 1, 1  # as HiGHS numbers them


@dataclass(frozen=True, eq=False)
class Matrix:
    """Coefficients by column, as HiGHS takes them: those of column c are at starts[c] to
    starts[c + 1] of `rows` and `values`."""

    starts: Numbers
    rows: Numbers
    values: Array


@dataclass(frozen=True, eq=False)
class Optimum:
    """A best solution.

    Args:
        x: the columns, (C,).
        cost: of it.
        prices: how much the least cost changes for each unit that a row's limit is raised, (R,): 0
            for rows that are not at a limit; empty for an integer programme, which has none.
    """

    x: Array
    cost: float
    prices: Array


def matrix(blocks: Iterable[tuple[Numbers, Array]]) -> Matrix:
    """Return the matrix of blocks of columns, one after the other.

    Args:
        blocks: for columns with up to K coefficients each, their rows and values, both (C, K); a
            column names no row twice. Zeros are left out.
    """
    counts, rows, values = [np.zeros(1, dtype=np.int64)], [], []
    for row, value in blocks:
        there = value != 0
        counts.append(there.sum(axis=1))
        rows.append(row[there])
        values.append(value[there])
    return Matrix(np.concatenate(counts).cumsum(), np.concatenate(rows), np.concatenate(values))


def minimise(
    cost: Array,
    coefficients: Matrix,
    columns: tuple[Array, Array],
    rows: tuple[Array, Array],
    *,
    gap: float | None = None,
) -> Optimum | None:
    """Return an x of the least cost, a corner of all such; None where no x keeps to all limits.

    Args:
        cost: of a unit of each column, (C,).
        coefficients: (R, C).
        columns: the least and the most of each column, (C,); either may be infinite.
        rows: the least and the most of each row, (R,); either may be infinite.
        gap: None for a linear programme; else all columns are whole numbers, and a solution is good
            enough at this relative gap.

    Raises:
        StavesError: the programme was not solved.
    """
    if any(np.isnan(part).any() for part in (cost, coefficients.values, *columns, *rows)):
        raise _unsolved("nan is no number")  # HiGHS takes some of them
    # Loads for longer than most simulations decide.
    from highspy._core import HighsModelStatus, HighsStatus, _Highs

    solver = _Highs()  # `Highs` is the same with callbacks, and prints a banner when it is made
    solver.setOptionValue("output_flag", False)
    if gap is None:
        solver.setOptionValue("presolve", "off")
    else:
        solver.setOptionValue("mip_rel_gap", gap)
    taken = solver.passModel(
        len(cost),
        len(rows[0]),
        len(coefficients.values),
        _BY_COLUMN,
        _MINIMISE,
        0.0,
        cost,
        *columns,
        *rows,
        coefficients.starts,
        coefficients.rows,
        coefficients.values,
        np.full(len(cost), int(gap is not None)),
    )
    if taken == HighsStatus.kError:
        raise _unsolved("it is not one")
    solver.run()
    status = solver.getModelStatus()
    if status == HighsModelStatus.kInfeasible:
        return None
    if status != HighsModelStatus.kOptimal:
        raise _unsolved(solver.modelStatusToString(status))
    solution = solver.getSolution()
    return Optimum(
        np.array(solution.col_value, dtype=np.float64),
        float(solver.getInfo().objective_function_value),
        np.array(solution.row_dual if solution.dual_valid else [], dtype=np.float64),
    )


def _unsolved(why: str) -> StavesError:
    return StavesError(
        f"the scheduler's programme was not solved: {why}", hint="report the jobs and their rates"
    )
