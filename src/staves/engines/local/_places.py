"""Where on this machine the devices of a run are."""

from __future__ import annotations

from collections.abc import Sequence

from staves.errors import InputError
from staves.hardware import Device, visible_gpus


def local_ranks(devices: Sequence[Device]) -> dict[str, int]:
    """Return each device's place on this machine: the torch ordinal of a GPU, else its rank.

    Raises:
        InputError: a type without `emulate` that this machine does not have so many of.
    """
    ranks = {}
    here: dict[str, list[int]] | None = None
    for rank, device in enumerate(devices):
        name = device.type.name
        ranks[device.name] = rank
        if device.type.emulated or name == "local-cpu":
            continue
        if here is None:
            here = {}
            for ordinal, kind in enumerate(visible_gpus()):
                here.setdefault(kind.name, []).append(ordinal)
        if not here.get(name):
            wanted = sum(d.type.name == name for d in devices)
            raise InputError(
                f"devices: {wanted} {name} are wanted, this machine has fewer",
                hint=f"emulate them: types: {{{name}: {{emulate: ...}}}}, or use local-cpu",
            )
        ranks[device.name] = here[name].pop(0)
    return ranks
