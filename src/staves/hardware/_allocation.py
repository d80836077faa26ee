"""Which devices of which nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from staves.errors import InputError, quoted
from staves.hardware._cluster import Cluster, Device
from staves.hardware._configuration import Configuration


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices granted to one job, in the order of its ranks.

    Raises:
        InputError: a device stands twice.
    """

    devices: tuple[Device, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "devices", tuple(self.devices))
        if len(set(self.names)) < len(self.devices):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InputError(f"the device {quoted(twice)} stands twice in one allocation")

    @classmethod
    def named(cls, cluster: Cluster, names: Iterable[str]) -> Allocation:
        """Return the devices of `cluster` with these names, in this order.

        Raises:
            InputError: the cluster has no such device, or a name stands twice.
        """
        by_name = {device.name: device for device in cluster.devices()}
        wanted = list(names)
        for name in wanted:
            if name not in by_name:
                raise InputError(f"the cluster has no device {quoted(name)}")
        return cls(tuple(by_name[name] for name in wanted))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the devices, in the order of the ranks."""
        return tuple(device.name for device in self.devices)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, each once, in order of first use."""
        return tuple(dict.fromkeys(device.node for device in self.devices))

    @property
    def configuration(self) -> Configuration:
        """How many devices of which type."""
        counts: dict[str, int] = {}
        for device in self.devices:
            counts[device.type.name] = counts.get(device.type.name, 0) + 1
        return Configuration(counts)

    @property
    def emulated(self) -> bool:
        """Whether any of the devices is emulated."""
        return any(device.type.emulated for device in self.devices)

    def disjoint(self, other: Allocation) -> bool:
        """Return whether the two share no device."""
        return set(self.names).isdisjoint(other.names)

    def __len__(self) -> int:
        return len(self.devices)

    def __iter__(self) -> Iterator[Device]:
        return iter(self.devices)


def first_free(
    cluster: Cluster, configuration: Configuration, taken: Iterable[Allocation] = ()
) -> Allocation:
    """Return the first devices of `cluster` that make `configuration` and are in none of `taken`.

    Raises:
        InputError: too few are free; the message names the type.
    """
    busy = {name for allocation in taken for name in allocation.names}
    wanted = dict(configuration)
    chosen: list[Device] = []
    for device in cluster.devices():
        if wanted.get(device.type.name, 0) and device.name not in busy:
            wanted[device.type.name] -= 1
            chosen.append(device)
    for name, missing in wanted.items():
        if missing:
            count = configuration[name]
            raise InputError(
                f"{count} devices of {name} wanted, {count - missing} free",
                hint=f"the cluster has {cluster.configuration}",
            )
    return Allocation(tuple(chosen))
