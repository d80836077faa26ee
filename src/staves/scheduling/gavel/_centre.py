"""The middle of all best allocations: an interior-point method for one kind of linear programme.

Jobs alike make many allocations equally good, and the simplex method names a corner of them, which
runs some of these jobs for good and others not at all. An interior-point method ends in the middle,
where alike jobs have equal shares, and that is what Gavel's rounds are made for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from staves.errors import StavesError

Array = NDArray[np.float64]

_GAP, _STEPS, _SHORT_OF_THE_EDGE = 1e-8, 100, 0.99


def central_fractions(value: Array, need: Array, capacity: Array) -> Array:
    """Return x, (J, G), in the middle of those that maximise the sum of value x.

    Subject to x >= 0, a sum over types of at most 1 for each job, and a sum over jobs of need x of
    at most `capacity` for each type. Mehrotra's predictor and corrector (SIAM J. Optim. 1992) from
    a feasible start; the normal equations come down to one (G, G) system, so a step takes
    O(J G^2).

    Args:
        value: of a whole share, (J, G), not below 0; where it is 0, x is 0.
        need: devices of each job, (J,), above 0.
        capacity: devices of each type, (G,); where it is 0, x is 0.

    Raises:
        StavesError: no solution within a relative gap of 1e-8; that has not been seen.
    """
    types = capacity > 0
    jobs = (value[:, types] > 0).any(axis=1)
    x = np.zeros(value.shape)
    if types.any() and jobs.any():
        inner = np.ix_(jobs, types)
        x[inner] = _solve(value[inner], need[jobs], capacity[types])
    return x


def _solve(value: Array, need: Array, capacity: Array) -> Array:
    value = value / value.max()
    there = np.append(value.ravel() > 0, np.ones(len(need) + len(capacity), dtype=bool))
    unknowns = int(there.sum())
    each = np.minimum(1.0, capacity / (need @ (value > 0) + 1)) / (len(capacity) + 1)
    x = np.where(value > 0, each, 0.0)
    y, z = value.max(axis=1) + 1, np.ones(len(capacity))
    # All primal variables in one array, and in another the dual ones that belong to them.
    primal = np.concatenate([x.ravel(), 1 - x.sum(axis=1), capacity - need @ x])
    dual = np.concatenate([(y[:, None] + np.outer(need, z) - value).ravel(), y, z])
    dual[~there] = 1.0
    cells = value.size
    for _ in range(_STEPS):
        gap = float(primal @ dual)
        x = primal[:cells].reshape(value.shape)
        if gap <= _GAP * (1 + float(np.vdot(value, x))):
            x = x / np.maximum(1.0, x.sum(axis=1))[:, None]  # what rounding has added
            within: Array = x / np.maximum(1.0, need @ x / capacity)
            return within
        newton = _Newton(primal, dual, there, need, len(capacity))
        both = primal * dual
        near, far = newton.step(-both)
        left = (primal + newton.length(near) * near) @ (dual + newton.dual_length(far) * far)
        target = (left / gap) ** 3 * gap / unknowns
        near, far = newton.step(there * (target - near * far) - both)
        primal = primal + _SHORT_OF_THE_EDGE * newton.length(near) * near
        dual = dual + _SHORT_OF_THE_EDGE * newton.dual_length(far) * far
    raise StavesError(
        "the allocation was not found within 100 steps", hint="report the jobs and their rates"
    )


class _Newton:
    """One linearisation of primal times dual = target, both feasibilities kept.

    Primal are x (J, G) and the slacks of each job's time (J,) and of each type's devices (G,); dual
    w (J, G) and the prices y (J,) of a job's time and z (G,) of a type's devices, with
    w = y + need z - value. Each three are one array, in this order. Where x is not `there` nothing
    moves.
    """

    def __init__(
        self, primal: Array, dual: Array, there: NDArray[np.bool_], need: Array, types: int
    ) -> None:
        self._need, self._shape = need[:, None], (len(need), types)
        self._cells, self._jobs = len(need) * types, len(need)
        self._there = there[: self._cells].reshape(self._shape)
        self._dual, self._ratio = dual, primal / dual
        self._inverse = np.divide(1.0, primal, out=np.zeros(len(primal)), where=there)
        ratio, slack, unused = self._parts(self._ratio)
        self._job = ratio.sum(axis=1) + slack
        self._cross = ratio * self._need
        self._weighed = self._cross / self._job[:, None]
        self._schur = np.diag(need @ self._cross + unused) - self._cross.T @ self._weighed

    def step(self, change: Array) -> tuple[Array, Array]:
        """Return how primal and dual move for the products to change by this."""
        part = change / self._dual
        share, slack, unused = self._parts(part)
        by_job = share.sum(axis=1) + slack
        by_type = (self._need * share).sum(axis=0) + unused
        dz = np.linalg.solve(self._schur, by_type - by_job @ self._weighed)
        dy = (by_job - self._cross @ dz) / self._job
        dw = (dy[:, None] + self._need * dz) * self._there
        moves = np.concatenate([dw.ravel(), dy, dz])
        return part - self._ratio * moves, moves

    def length(self, moves: Array) -> float:
        """Return the longest step, at most 1, that leaves all primal at 0 or above."""
        return 1 / max(1.0, -float((moves * self._inverse).min()))

    def dual_length(self, moves: Array) -> float:
        """Return the longest step, at most 1, that leaves all dual at 0 or above."""
        return 1 / max(1.0, -float((moves / self._dual).min()))

    def _parts(self, array: Array) -> tuple[Array, Array, Array]:
        cells, jobs = self._cells, self._jobs
        return (
            array[:cells].reshape(self._shape),
            array[cells : cells + jobs],
            array[cells + jobs :],
        )
