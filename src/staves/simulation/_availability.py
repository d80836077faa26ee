"""How many devices are there when: what an availability trace says, and what it means for nodes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from staves.errors import InputError
from staves.hardware import Cluster
from staves.simulation._counted import Counted

ANY = "any"
"""Stands for devices whose type the trace does not tell."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A node goes away, or comes back.

    Args:
        at: seconds.
        node: its number in the cluster.
        up: whether it comes back.
    """

    at: float
    node: int
    up: bool


@dataclass(frozen=True, slots=True)
class Availability:
    """Devices that are there, from each time until the next; after the last for good.

    Args:
        name: for reports.
        times: seconds from the trace's start, ascending; the first is 0.
        devices: how many of each type at each time; `ANY` for devices of whatever type.
        counted: what its reader dropped or put right.
        assumed: what the file does not say, one line each.

    Raises:
        InputError: there is no time, times do not ascend from 0, or a type lacks counts.
    """

    name: str
    times: tuple[float, ...]
    devices: Mapping[str, tuple[int, ...]] = field(hash=False)
    counted: tuple[Counted, ...] = ()
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        pairs = zip(self.times, self.times[1:], strict=False)
        if not self.times or self.times[0] != 0 or any(b <= a for a, b in pairs):
            raise InputError(f"{self.name}: times must ascend from 0")
        if any(len(counts) != len(self.times) for counts in self.devices.values()):
            raise InputError(f"{self.name}: counts and times must be as many")

    def at(self, seconds: float) -> dict[str, int]:
        """Return the devices by type at a time; before the first as at the first."""
        index = max(0, bisect_right(self.times, seconds) - 1)
        return {name: counts[index] for name, counts in self.devices.items()}

    def outages(self, cluster: Cluster) -> list[Outage]:
        """Return which nodes of `cluster` go and come back when, in order of time.

        For each type that the trace names, nodes are up in their order in the cluster as far as
        the trace has devices for all of theirs; a node of which a part only is there is away. Types
        that the trace does not name are always up.

        Raises:
            InputError: the trace names no type of the cluster.
        """
        used = set(cluster.configuration)
        if ANY not in self.devices and not used & self.devices.keys():
            raise InputError(
                f"{self.name}: holds {', '.join(self.devices)}, none of which is in the cluster",
                hint=f"the cluster has {', '.join(sorted(used))}",
            )
        found: list[Outage] = []
        up = [True] * len(cluster.nodes)
        sizes = [node.devices for node in cluster.nodes]
        for index, at in enumerate(self.times):
            there = {name: counts[index] for name, counts in self.devices.items()}
            for number, now in enumerate(_up(sizes, there)):
                if now != up[number]:
                    found.append(Outage(at, number, now))
                    up[number] = now
        return found


def _up(sizes: Sequence[Mapping[str, int]], there: Mapping[str, int]) -> list[bool]:
    left = dict(there)
    result = []
    for devices in sizes:
        wanted = {name: count for name, count in devices.items() if name in left}
        if ANY in left:
            wanted[ANY] = sum(devices.values())
        fits = all(left[name] >= count for name, count in wanted.items())
        for name, count in wanted.items():
            # What does not fit leaves nothing for later nodes: which are up must not depend on
            # their sizes.
            left[name] = left[name] - count if fits else 0
        result.append(fits)
    return result
