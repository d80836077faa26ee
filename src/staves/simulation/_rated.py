"""Applications whose throughput is all that is known: tables of steps a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staves.scheduling import Rates
from staves.simulation._work import Placement


@dataclass(frozen=True, eq=False)
class RatedApplication:
    """Steps a second over all workers, by device type and number of devices.

    Args:
        name: as traces name it.
        together: on one node.
        apart: on several.
        pause_seconds: of a start or a restart.
    """

    name: str
    together: Mapping[str, Mapping[int, float]]
    apart: Mapping[str, Mapping[int, float]]
    pause_seconds: float = 30.0

    @property
    def most_devices(self) -> int:
        """The most devices that were measured."""
        tables = (*self.together.values(), *self.apart.values())
        return max((n for by_count in tables for n in by_count), default=0)

    def runs_on(self, devices: int, types: Sequence[str]) -> bool:
        """Say whether so many devices of one of `types` run it."""
        return any(self.speed(name, devices, apart=False) > 0 for name in types)

    def speed(self, name: str, devices: int, *, apart: bool) -> float:
        """Return steps a second on so many devices of a type, on one node or `apart`.

        What was measured in the other way only counts as that; 0 where nothing was measured.
        """
        tables = (self.apart, self.together) if apart else (self.together, self.apart)
        for table in tables:
            if devices in table.get(name, {}):
                return table[name][devices]
        return 0.0


class RatedWork:
    """One job of such an application: a number of steps, at one rate.

    Args:
        application: its table.
        types: names of the cluster's types.
        node_sizes: devices of each type on a node.
        steps: all of its work.
    """

    def __init__(
        self,
        application: RatedApplication,
        types: Sequence[str],
        node_sizes: Sequence[int],
        steps: float,
    ) -> None:
        self._application, self._types = application, tuple(types)
        self._node_sizes, self._steps = tuple(node_sizes), steps

    @property
    def marks(self) -> tuple[float, ...]:
        """The end, in steps."""
        return (self._steps,)

    def rate(self, phase: int, placement: Placement) -> float:
        """Return steps a second; 0 on unlike devices, and where nothing was measured."""
        used = [g for g, nodes in enumerate(placement) if nodes]
        if len(used) != 1:
            return 0.0
        name, nodes = self._types[used[0]], placement[used[0]]
        return self._application.speed(name, sum(nodes), apart=len(nodes) > 1)

    def trained(self, phase: int) -> bool:
        """Return False: there is nothing to learn."""
        return False

    def step_work(self, phase: int) -> float:
        """Return 1: work is counted in steps."""
        return 1.0

    def rates(self, phase: int) -> Rates:
        """Return the rates on as few nodes as possible."""
        return self._packed

    def _packed(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        rows = configurations.tolist()
        return np.array(
            [self.rate(0, tuple(map(self._nodes, row, self._node_sizes))) for row in rows]
        )

    @staticmethod
    def _nodes(count: int, size: int) -> tuple[int, ...]:
        return (size,) * (count // size) + ((count % size,) if count % size else ())

    def measured(self, phase: int, placement: Placement) -> bool:
        """Say whether so many devices were measured on one node or on several, as they are."""
        tables = (self._application.together, self._application.apart)
        return all(
            sum(nodes) in tables[len(nodes) > 1].get(self._types[g], {})
            for g, nodes in enumerate(placement)
            if nodes
        )
