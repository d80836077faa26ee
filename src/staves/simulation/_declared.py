"""Jobs of which only a duration is declared: how they would run on other devices is assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.estimation import LOSS
from staves.hardware import Cluster, peak_teraflops
from staves.scheduling import Rates
from staves.simulation._work import Placement

MOST_DEVICES = 64
"""Beyond which nobody is taken to scale, unless a job itself asks for more."""


@dataclass(frozen=True, slots=True)
class DeclaredApplication:
    """Applications of which traces tell durations only.

    n devices are n / (1 + LOSS (n - 1)) times as fast as one (`estimation.GuessedRates`), devices
    of other types by the ratio of their peaks in 32-bit arithmetic, and where devices stand makes
    no difference. All of this is assumed, none of it measured.

    Args:
        name: as traces name it.
        speeds: of one device by type; 1 for the type on which durations are declared.
        pause_seconds: of a start or a restart.
    """

    name: str
    speeds: tuple[tuple[str, float], ...]
    pause_seconds: float = 30.0

    @property
    def most_devices(self) -> int:
        """The most devices that a job may use."""
        return MOST_DEVICES


def declared_speeds(cluster: Cluster) -> tuple[tuple[str, float], ...]:
    """Return the speed of one device by type, over that of the type with most devices.

    Types without a data sheet count as the type with most devices. Of types with equally many
    devices the first by name is meant.
    """
    counts = dict(cluster.configuration)
    usual = max(sorted(counts), key=counts.__getitem__)
    peaks = {name: peak_teraflops(name) for name in counts}
    own = peaks[usual]
    return tuple(
        (name, 1.0 if own is None or peak is None else peak / own) for name, peak in peaks.items()
    )


class DeclaredWork:
    """One such job: its work is its declared seconds, on the devices that it asked for.

    Args:
        application: the speeds.
        types: names of the cluster's types.
        devices: that it asked for.
        seconds: that it would take on them.
    """

    def __init__(
        self,
        application: DeclaredApplication,
        types: Sequence[str],
        devices: int,
        seconds: float,
    ) -> None:
        known = dict(application.speeds)
        speeds = tuple(known.get(name, 1.0) for name in types)
        self._rates = _DeclaredRates(speeds, devices)
        self._seconds = seconds

    @property
    def marks(self) -> tuple[float, ...]:
        """The end, in declared seconds."""
        return (self._seconds,)

    def rate(self, phase: int, placement: Placement) -> float:
        """Return declared seconds a second."""
        counts = [[sum(nodes) for nodes in placement]]
        return float(self._rates(np.array(counts, dtype=np.int64))[0])

    def trained(self, phase: int) -> bool:
        """Return False: there is nothing to learn."""
        return False

    def step_work(self, phase: int) -> float:
        """Return 0: how many steps there are is not known."""
        return 0.0

    def rates(self, phase: int) -> Rates:
        """Return the rates."""
        return self._rates

    def measured(self, phase: int, placement: Placement) -> bool:
        """Return False: nothing is."""
        return False


@dataclass(frozen=True, slots=True)
class _DeclaredRates:
    """Equal for equal jobs, so that what is known of one's rates is known of the other's."""

    speeds: tuple[float, ...]
    devices: int

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        own = self.devices / (1 + LOSS * (self.devices - 1))
        counts = configurations.sum(axis=1)
        together = configurations @ np.array(self.speeds)
        rates: NDArray[np.float64] = together / (1 + LOSS * np.maximum(counts - 1, 0)) / own
        return rates
