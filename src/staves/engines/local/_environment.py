"""The environment in which a worker starts: its devices, its rank, and what all workers share."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from staves.hardware import Device


def of_all_workers(environ: Mapping[str, str], devices: Sequence[Device]) -> dict[str, str]:
    """Return `environ` with what processes that share this machine's cores should have.

    Args:
        environ: what they have already, which wins.
        devices: one for each worker to begin with; none where one worker has all there are.
    """
    shared = dict(environ)
    shared.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all workers are on this machine
    if devices and all(device.type.emulated for device in devices):
        shared.setdefault("OMP_NUM_THREADS", "1")  # many may come, however few there are yet
    elif len(devices) > 1:
        cores = max(1, (os.cpu_count() or 1) // len(devices))
        shared.setdefault("OMP_NUM_THREADS", str(cores))
    shared["PYTHONUNBUFFERED"] = "1"
    return shared


def of_one_device(
    device: Device, *, local_rank: int, rank: int, world_size: int, member: int
) -> dict[str, str]:
    """Return the variables of a worker with one device.

    Args:
        device: its device.
        local_rank: the device's place on this machine.
        rank, world_size: of the generation it is expected to join first.
        member: the worker's number in the job.
    """
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world_size),
        "STAVES_MEMBER": str(member),
        "STAVES_DEVICE": json.dumps(_about(device)),
    }


def of_all_devices(devices: Sequence[Device], local_ranks: Mapping[str, int]) -> dict[str, str]:
    """Return the variables of the one worker that has all devices and no rank."""
    variables = {"STAVES_DEVICES": json.dumps([_about(device) for device in devices])}
    gpus = [d for d in devices if not d.type.emulated and d.type.name != "local-cpu"]
    if gpus:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(str(local_ranks[d.name]) for d in gpus)
    return variables


def _about(device: Device) -> dict[str, Any]:
    profile = device.type.profile
    emulation = {} if profile is None else {"profile": profile.to_document()}
    link = device.link_bits_per_second
    declared = {} if link is None else {"link": link}
    return {"name": device.name, "type": device.type.name, **emulation, **declared}
