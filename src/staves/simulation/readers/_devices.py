"""Device types as public files spell them."""

from __future__ import annotations

import re

from staves.hardware import KNOWN_TYPES, DeviceType, device_type_from_name

# What the files' authors do not disclose, or sell under a name of their own.
_UNDISCLOSED = frozenset({"g2", "g3", "gpu-series-1", "gpu-series-2"})

_KNOWN_ELSEWHERE = {"h800": 80, "a800": 80, "v100-32gb": 32, "titanrtx": 24, "a5500": 24}
"""Types that the product has no data sheet of, and their memory in GB."""

_MAKER = re.compile(r"^.*?(?=(?:quadro|titan|rtx|gtx|tesla|gh?\d|[ahvptkl]\d))")
_SPELLING = {
    "v100m16": "v100",
    "v100m32": "v100-32gb",
    "titan-rtx": "titanrtx",
    "quadrortx8000": "rtx8000",
    "quadrortx6000": "rtx6000",
    "quadrortx5000": "rtx5000",
    "rtxa6000": "a6000",
    "rtxa5500": "a5500",
    "rtxa5000": "a5000",
    "rtxa4500": "a4500",
    "1080ti": "gtx1080ti",
    "3070": "rtx3070",
    "3080": "rtx3080",
    "3090": "rtx3090",
    "4090": "rtx4090",
    "a100-dgx": "a100",
    "a100-40": "a100",
    "v100-16": "v100",
    "v100-dgx2": "v100",
}


def device_type(text: str) -> str | None:
    """Return the product's name for a type as a file spells it; None for one that is not known.

    Form factor, host and maker do not make a type; memory does for a100 (80 GB) only. What the
    files' own authors keep secret (`G2`, `GPU-series-1`) is a type of that name.
    """
    lower = text.strip().lower()
    if lower in _UNDISCLOSED:
        return lower
    lower = re.sub(r"\(.*?\)", "", lower)
    lower = re.sub(r"^.*?\b\d+x\s+", "", lower)  # "Lambda Cloud - 2x RTX A6000"
    if lower in _SPELLING:
        return _SPELLING[lower]
    lower = _MAKER.sub("", lower, count=1) or lower
    name = device_type_from_name(re.sub(r"\b(pcie|sxm)\d*\b|\bgen\d\b", " ", lower))
    name = _SPELLING.get(name, name)
    return name if name in KNOWN_TYPES or name in _KNOWN_ELSEWHERE else None


def declared_type(name: str) -> DeviceType:
    """Return the type with that name: known, or of the memory that is known elsewhere."""
    if name in KNOWN_TYPES:
        return KNOWN_TYPES[name]
    size = _KNOWN_ELSEWHERE.get(name)
    return DeviceType(name) if size is None else DeviceType(name, size * 10**9)
