"""The device types that need no declaration, with their memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from staves.documents import suggestion
from staves.errors import InputError, quoted
from staves.hardware._types import DeviceType

LOCAL_CPU = "local-cpu"
"""The type of a device that is a share of the local machine's CPU."""

# Memory in GB (10^9 bytes) as the vendors' data sheets print it, for what the driver shows as one
# device: half a board for the two-chip k80, mi250 and mi250x.
_GIGABYTES = {
    "k80": 12,
    "p4": 8,
    "p40": 24,
    "p100": 16,
    "v100": 16,
    "t4": 16,
    "a2": 16,
    "a10": 24,
    "a10g": 24,
    "a16": 16,
    "a30": 24,
    "a40": 48,
    "a100": 40,
    "a100-80gb": 80,
    "l4": 24,
    "l40": 48,
    "l40s": 48,
    "h100": 80,
    "h200": 141,
    "h20": 96,
    "gh200": 96,
    "b200": 180,
    "b300": 288,
    "a4000": 16,
    "a4500": 20,
    "a5000": 24,
    "a6000": 48,
    "rtx6000": 24,
    "rtx8000": 48,
    "rtx6000-ada": 48,
    "gtx1080ti": 11,
    "rtx2080": 8,
    "rtx2080ti": 11,
    "rtx3060": 12,
    "rtx3070": 8,
    "rtx3080": 10,
    "rtx3080ti": 12,
    "rtx3090": 24,
    "rtx3090ti": 24,
    "rtx4070": 12,
    "rtx4080": 16,
    "rtx4090": 24,
    "rtx5080": 16,
    "rtx5090": 32,
    "mi100": 32,
    "mi210": 64,
    "mi250": 64,
    "mi250x": 64,
    "mi300a": 128,
    "mi300x": 192,
    "mi325x": 256,
}

KNOWN_TYPES: Mapping[str, DeviceType] = MappingProxyType(
    {LOCAL_CPU: DeviceType(LOCAL_CPU)}
    | {name: DeviceType(name, size * 10**9) for name, size in _GIGABYTES.items()}
)
"""Known types by name: real devices, memory in bytes."""


def known_type(name: str) -> DeviceType:
    """Return the known type `name`.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    if name not in KNOWN_TYPES:
        raise InputError(f"unknown device type {quoted(name)}", hint=suggestion(name, KNOWN_TYPES))
    return KNOWN_TYPES[name]


# Peak of one device in 32-bit arithmetic, as the vendors' data sheets print it.
_TERAFLOPS = {
    "k80": 4.1,
    "p40": 11.8,
    "p100": 10.6,
    "v100": 15.7,
    "t4": 8.1,
    "a10": 31.2,
    "a30": 10.3,
    "a40": 37.4,
    "a100": 19.5,
    "a100-80gb": 19.5,
    "a6000": 38.7,
    "l4": 30.3,
    "l40": 90.5,
    "l40s": 91.6,
    "h100": 66.9,
    "h200": 66.9,
    "gtx1080ti": 11.3,
    "rtx2080": 10.1,
    "rtx2080ti": 13.4,
    "rtx3080": 29.8,
    "rtx3090": 35.6,
    "rtx4090": 82.6,
    "rtx6000": 16.3,
    "rtx8000": 16.3,
}


def peak_teraflops(name: str) -> float | None:
    """Return the peak of a device of that type in 32-bit arithmetic; None where it is not known.

    A first guess at how fast types are beside each other, until jobs have run on them.
    """
    return _TERAFLOPS.get(name)
