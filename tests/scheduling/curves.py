"""Jobs whose rate on n devices of each type is written down, and clusters of one node a type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.scheduling import JobView, View


@dataclass(frozen=True)
class Curves:
    """Rates by type and number of devices, from 1; of one type only."""

    rates: tuple[tuple[float, ...], ...]

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        found = []
        for row in configurations.tolist():
            used = [(g, n) for g, n in enumerate(row) if n]
            known = len(used) == 1 and used[0][1] <= len(self.rates[used[0][0]])
            found.append(self.rates[used[0][0]][used[0][1] - 1] if known else 0.0)
        return np.array(found)


def concave(rng: np.random.Generator, devices: int) -> tuple[float, ...]:
    """Return rates that grow by less and less."""
    return tuple(np.cumsum(np.sort(rng.uniform(0.1, 1.0, devices))[::-1]).tolist())


def job(name: str, *rates: tuple[float, ...], **more: object) -> JobView:
    """A job that may have as many devices as it has rates for."""
    most = max(map(len, rates))
    return JobView(name, 0.0, Curves(rates), maximum=most, mix=False, **more)  # type: ignore[arg-type]


def view(capacity: tuple[int, ...], *jobs: JobView, now: float = 1000.0) -> View:
    names = tuple("abc"[: len(capacity)])
    return View(now, names, capacity, (capacity,), jobs)
