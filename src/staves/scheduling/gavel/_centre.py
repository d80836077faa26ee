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
    there = value > 0
    value = value / value.max()
    unknowns = int(there.sum()) + len(need) + len(capacity)
    each = np.minimum(1.0, capacity / (need @ there + 1)) / (len(capacity) + 1)
    x = np.where(there, each, 0.0)
    y, z = value.max(axis=1) + 1, np.full(len(capacity), 1.0)
    w = np.where(there, y[:, None] + np.outer(need, z) - value, 1.0)
    s, t = 1 - x.sum(axis=1), capacity - need @ x
    for _ in range(_STEPS):
        gap = float((x * w).sum() + s @ y + t @ z)
        if gap <= _GAP * (1 + float((value * x).sum())):
            x = x / np.maximum(1.0, x.sum(axis=1))[:, None]  # what rounding has added
            within: Array = x / np.maximum(1.0, need @ x / capacity)
            return within
        newton = _Newton(x, w, s, y, t, z, need)
        dx, dw, ds, dy, dt, dz = newton.step(-x * w, -s * y, -t * z)
        near, far = _length((x, dx), (s, ds), (t, dt)), _length((w, dw), (y, dy), (z, dz))
        left = ((x + near * dx) * (w + far * dw)).sum()
        left += (s + near * ds) @ (y + far * dy) + (t + near * dt) @ (z + far * dz)
        target = (left / gap) ** 3 * gap / unknowns
        dx, dw, ds, dy, dt, dz = newton.step(
            np.where(there, target - x * w - dx * dw, 0.0),
            target - s * y - ds * dy,
            target - t * z - dt * dz,
        )
        near = _SHORT_OF_THE_EDGE * _length((x, dx), (s, ds), (t, dt))
        far = _SHORT_OF_THE_EDGE * _length((w, dw), (y, dy), (z, dz))
        x, s, t = x + near * dx, s + near * ds, t + near * dt
        w, y, z = w + far * dw, y + far * dy, z + far * dz
    raise StavesError(
        "the allocation was not found within 100 steps", hint="report the jobs and their rates"
    )


class _Newton:
    """One linearisation of x w = s y = t z = target, both feasibilities kept.

    x (J, G), s (J,), t (G,) are the primal variables and slacks; y (J,), z (G,) the prices of a
    job's time and of a type's devices; w = y + need z - value. Where x is 0 nothing moves.
    """

    def __init__(
        self, x: Array, w: Array, s: Array, y: Array, t: Array, z: Array, need: Array
    ) -> None:
        self._x, self._w, self._s, self._y, self._t, self._z = x, w, s, y, t, z
        self._need = need
        self._ratio = x / w
        self._job = self._ratio.sum(axis=1) + s / y
        self._cross = self._ratio * need[:, None]
        self._type = np.diag(need**2 @ self._ratio + t / z)
        self._schur = self._type - self._cross.T @ (self._cross / self._job[:, None])

    def step(
        self, xw: Array, sy: Array, tz: Array
    ) -> tuple[Array, Array, Array, Array, Array, Array]:
        """Return the changes dx, dw, ds, dy, dt, dz for these right-hand sides."""
        share = xw / self._w
        by_job = share.sum(axis=1) + sy / self._y
        by_type = self._need @ share + tz / self._z
        dz = np.linalg.solve(self._schur, by_type - self._cross.T @ (by_job / self._job))
        dy = (by_job - self._cross @ dz) / self._job
        dw = np.where(self._x > 0, dy[:, None] + np.outer(self._need, dz), 0.0)
        dx = share - self._ratio * dw
        return dx, dw, (sy - self._s * dy) / self._y, dy, (tz - self._t * dz) / self._z, dz


def _length(*moves: tuple[Array, Array]) -> float:
    """Return the longest step, at most 1, that leaves all of these at 0 or above."""
    return min(
        1.0,
        *(
            float((-now[falling] / change[falling]).min(initial=1.0))
            for now, change in moves
            for falling in [change < 0]
        ),
    )
