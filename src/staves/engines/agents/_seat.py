"""The environment of ranks on one node: its address, its GPUs, its cores."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from staves.engines.agents._addresses import interface_of
from staves.hardware import Device, visible_gpus

_OF_THE_NODE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


class Seat:
    """What a node adds to the environment of the ranks that an agent starts there.

    Args:
        address: the node's own, which the ranks use among each other.
        devices: those that the agent holds; none of these is another job's.
        beside: how many devices of the node the job has to begin with.
    """

    def __init__(self, address: str, devices: Sequence[Device], *, beside: int) -> None:
        self._address, self._devices, self._beside = address, list(devices), max(1, beside)
        self._here: dict[str, list[int]] | None = None

    def environ(self, environ: Mapping[str, str], device: Device | None = None) -> dict[str, str]:
        """Return `environ` with what this node adds; what is there already wins."""
        whole = dict(environ)
        whole["STAVES_ADDRESS"] = self._address
        for name in _OF_THE_NODE:
            if name in os.environ:
                whole.setdefault(name, os.environ[name])
        cores = max(1, (os.cpu_count() or 1) // self._beside)
        whole.setdefault("OMP_NUM_THREADS", str(cores))
        if not any(_is_gpu(each) for each in self._devices):
            return whole
        if (interface := interface_of(self._address)) is not None:
            whole.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")
        if device is not None and "STAVES_DEVICES" in whole:  # one process with all of them
            if "CUDA_VISIBLE_DEVICES" not in os.environ:
                own = [self._place(each) for each in self._devices if _is_gpu(each)]
                whole["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, own))
        elif device is not None and _is_gpu(device):
            whole["LOCAL_RANK"] = str(self._place(device))
        return whole

    def _place(self, device: Device) -> int:
        """Return the torch ordinal of a GPU.

        Where a cluster shows this agent just the GPUs that it holds, they are numbered anew: the
        order of their indices counts. Else a GPU's index among those of its type does.
        """
        if self._here is None:
            self._here = {}
            for ordinal, kind in enumerate(visible_gpus()):
                self._here.setdefault(kind.name, []).append(ordinal)
        ordinals = self._here.get(device.type.name, [])
        held = sorted(each.index for each in self._devices if each.type.name == device.type.name)
        anew = len(held) == len(ordinals) and device.index in held
        place = held.index(device.index) if anew else device.index
        # One that this node cannot see is torch's to refuse, with its own words.
        return ordinals[place] if place < len(ordinals) else device.index


def _is_gpu(device: Device) -> bool:
    return not device.type.emulated and device.type.name != "local-cpu"
