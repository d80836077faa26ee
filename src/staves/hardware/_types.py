"""Device types, and the declared pace of emulated ones."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from staves.documents import LONGEST_SECONDS
from staves.errors import InputError, quoted

MISSES_ALLOWED = 0.02
"""The share of an emulated device's steps that may miss a declared deadline: real work that is late
cannot be paced, and a figure with more misses is void."""

LARGEST_BATCH = 2**53
"""Whole numbers are exact in floats up to here."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_name(name: str, what: str) -> None:
    """Refuse a name that could not stand in `node/type-0` or `2xtype+1xtype`.

    Raises:
        InputError: `name` holds more than letters, digits, '.', '_' and '-', or starts with a sign.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{what} {quoted(name)} is not a name",
            hint="use letters, digits, '.', '_' and '-', and start with a letter or digit",
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """How long one pass takes: max(floor, fixed + per_sample x batch), all in seconds.

    Raises:
        InputError: a time is negative, not finite or longer than LONGEST_SECONDS.
    """

    fixed: float
    per_sample: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        for name in ("fixed", "per_sample", "floor"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{name} {value!r} must be finite and not negative")
            if value > LONGEST_SECONDS:
                raise InputError(f"{name} {value!r} is longer than {LONGEST_SECONDS:g} seconds")

    def seconds(self, batch: float) -> float:
        """Return the seconds that a pass over `batch` samples takes."""
        return max(self.floor, self.fixed + self.per_sample * batch)


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """The declared compute times of an emulated device.

    `forward` covers data, forward pass and update, `backward` the backward pass: a_i and P_i of the
    step-time model. `min_batch` and `max_batch` bound the local batch, in samples.

    Raises:
        InputError: the bounds contradict each other, or every time is zero.
    """

    forward: Pace
    backward: Pace
    max_batch: int | None = None
    min_batch: int = 0

    def __post_init__(self) -> None:
        if self.min_batch < 0:
            raise InputError(f"min_batch {self.min_batch} must not be negative")
        if self.max_batch is not None and self.max_batch < max(1, self.min_batch):
            raise InputError(
                f"max_batch {self.max_batch} must be at least 1 and at least min_batch"
                f" ({self.min_batch})"
            )
        if max(self.min_batch, self.max_batch or 0) > LARGEST_BATCH:
            raise InputError("min_batch and max_batch must be at most 2^53", hint="lower them")
        if self.seconds(1) == 0:
            raise InputError(
                "all times are zero", hint="give forward or backward a fixed or per_sample time"
            )

    def seconds(self, batch: float) -> float:
        """Return the seconds of computation for one step of `batch` samples."""
        return self.forward.seconds(batch) + self.backward.seconds(batch)

    def to_document(self) -> dict[str, Any]:
        """Return the profile as a JSON document, in seconds and samples."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> DeviceProfile:
        """Return the profile that `to_document` wrote."""
        return cls(
            forward=Pace(**document["forward"]),
            backward=Pace(**document["backward"]),
            max_batch=document["max_batch"],
            min_batch=document["min_batch"],
        )


@dataclass(frozen=True, slots=True)
class DeviceType:
    """A kind of device.

    Args:
        name: as in configurations, `a100` say.
        memory_bytes: memory of one device in bytes; None where it is not known or, for a CPU,
            shared with the rest of the machine.
        profile: the declared pace of an emulated type; None for real devices.
    """

    name: str
    memory_bytes: int | None = None
    profile: DeviceProfile | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "device type")
        if self.memory_bytes is not None and self.memory_bytes <= 0:
            raise InputError("memory must be above zero")

    @property
    def emulated(self) -> bool:
        """Whether the compute durations of this type are declared instead of measured."""
        return self.profile is not None
