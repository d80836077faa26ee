"""How fast nodes reach each other."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from staves.errors import InputError


@dataclass(frozen=True, slots=True)
class Link:
    """What two devices on two nodes need to reduce a buffer: latency + 8 x bytes / speed.

    Args:
        bits_per_second: its speed, each way.
        latency: seconds that any buffer takes, however small.

    Raises:
        InputError: the speed is not finite and above zero, or the latency not finite or negative.
    """

    bits_per_second: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bits_per_second) and self.bits_per_second > 0):
            raise InputError(f"link {self.bits_per_second!r} must be finite and above zero")
        if not (math.isfinite(self.latency) and self.latency >= 0):
            raise InputError(f"latency {self.latency!r} must be finite and not negative")


def worst(links: Iterable[Link | None]) -> Link | None:
    """Return the link that a ring over all of these is like: the lowest speed, the longest latency.

    All hops of a ring carry as much at the same time, and wait for each other. None, a link of
    which nothing is known, tells nothing; of none the result is None.
    """
    known = [link for link in links if link is not None]
    if not known:
        return None
    return Link(min(link.bits_per_second for link in known), max(link.latency for link in known))


def pair_of(one: str, other: str) -> tuple[str, str]:
    """Return two names in the order in which a pair of them is kept."""
    return (one, other) if one <= other else (other, one)
