"""Numbers on the command line: what is out of range is refused, by the name of its option."""

from __future__ import annotations

import math

from staves.errors import InputError


def check_within(
    option: str, value: float, low: float, high: float = math.inf, *, hint: str
) -> None:
    """Refuse what is no number, or not within `low` to `high`, both included.

    Args:
        option: that gives the number, for the message.
        value: any float; an infinite one is within an infinite bound.
        low, high: in the option's own unit.
        hint: what to give instead.

    Raises:
        InputError: it is out of range.
    """
    if low <= value <= high:
        return
    wanted = f"from {low:g} to {high:g}" if math.isfinite(high) else f"at least {low:g}"
    raise InputError(f"{option} must be {wanted}, not {value:g}", hint=hint)
