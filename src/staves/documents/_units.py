"""Quantities with units, as people write them: `30s`, `0.6ms`, `24GB`, `200Mbit`.

No bare numbers in configuration: `30` may be seconds or minutes, `30s` is not.
"""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from staves.errors import InputError, quoted

_QUANTITY = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµμ/]+)\s*", re.ASCII
)

_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_BYTES = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}  # fmt: skip
_BITS = {"bit": 1, "kbit": 10**3, "Kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9, "Tbit": 10**12}
_BITS |= {f"{unit}/s": factor for unit, factor in _BITS.items()}


LONGEST_SECONDS = 1e18
"""No duration is longer: so no sum of them, and no product with a batch, overflows."""


def _quantity(value: object, units: dict[str, float] | dict[str, int], example: str) -> float:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        raise InputError(
            f"{quoted(value)} is not a quantity; write a number and a unit, like {example}"
        )
    number = float(match[1]) * units[match[2]]
    if number < 0 or not math.isfinite(number):
        raise InputError(
            f"{quoted(value)} must be finite and not negative", hint=f"write one like {example}"
        )
    return number


def _schema(units: dict[str, float] | dict[str, int], *examples: str) -> WithJsonSchema:
    number = r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
    pattern = rf"^\s*{number}\s*({'|'.join(units)})\s*$"
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": list(examples)})


def _seconds(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0:
        return 0.0  # zero is the same in every unit
    number = _quantity(value, _SECONDS, "30s or 0.6ms")
    if number > LONGEST_SECONDS:
        raise InputError(
            f"{quoted(value)} is longer than {LONGEST_SECONDS:g} seconds", hint="shorten it"
        )
    return number


def _bytes(value: object) -> int:
    return round(_quantity(value, _BYTES, "24GB"))


def _bits_per_second(value: object) -> float:
    return _quantity(value, _BITS, "200Mbit")


Seconds = Annotated[float, BeforeValidator(_seconds), _schema(_SECONDS, "30s", "0.6ms", "5m")]
"""A duration in seconds, written with its unit (ns, us, ms, s, m, h, d); a zero needs none."""

Bytes = Annotated[int, BeforeValidator(_bytes), _schema(_BYTES, "24GB", "16GiB")]
"""A size in bytes, written with its unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)."""

BitsPerSecond = Annotated[
    float, BeforeValidator(_bits_per_second), _schema(_BITS, "200Mbit", "10Gbit")
]
"""A link speed in bits per second, written with its unit (bit, kbit, Mbit, Gbit, Tbit)."""


def duration(text: str) -> float:
    """Return the seconds of a duration written with its unit, such as `5m`.

    Raises:
        InputError: it is none.
    """
    try:
        return _seconds(text)
    except ValueError as error:
        raise InputError(str(error)) from None
