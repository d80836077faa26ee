"""What an argument must be: refused where it is given, by its name and with a hint."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, TypeVar

from staves.errors import InputError, quoted

Kind = TypeVar("Kind")


def positive_integer(name: str, value: object, hint: str = "count samples") -> int:
    """Return `value` if it is an integer above 0; raise InputError naming `name` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name}: {quoted(value)} is not a positive integer", hint=hint)
    return value


def integer(name: str, value: object, hint: str) -> int:
    """Return `value`, numpy's integers included, as an int; raise InputError otherwise."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name}: {quoted(value)} is not an integer", hint=hint)
    return int(value)


def integers(name: str, values: object, hint: str) -> tuple[int, ...]:
    """Return all of them as ints; raise InputError where they are no row of integers."""
    if not isinstance(values, Iterable):
        raise InputError(f"{name}: {quoted(values)} is no row of integers", hint=hint)
    return tuple(integer(f"{name}[{place}]", value, hint) for place, value in enumerate(values))


def number(name: str, value: object, hint: str) -> float:
    """Return `value` as a float; raise InputError where it is no number, or nan."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name}: {quoted(value)} is not a number", hint=hint)
    try:
        found = float(value)
    except OverflowError:
        raise InputError(f"{name}: {quoted(value)} is too large", hint=hint) from None
    if math.isnan(found):
        raise InputError(f"{name}: nan is not a number", hint=hint)
    return found


def bounded(name: str, value: object, most: float, hint: str) -> float:
    """Return `value` if it is a number from 0 to `most`; raise InputError otherwise."""
    found = number(name, value, hint)
    if not 0 <= found <= most:
        raise InputError(f"{name}: {quoted(value)} is not from 0 to {most:g}", hint=hint)
    return found


def seed_of(name: str, value: object) -> int:
    """Return `value` if random numbers can be seeded by it; raise InputError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name}: {quoted(value)} is not an integer", hint="such as 0")
    if not 0 <= value < 2**63:
        raise InputError(f"{name}: {quoted(value)} is outside of 0 to 2^63 - 1", hint="such as 0")
    return value


def instance(name: str, value: Any, kind: type[Kind], hint: str) -> Kind:
    """Return `value` if it is of that kind; raise InputError otherwise."""
    if isinstance(value, kind):
        return value
    what = f"the class {value.__name__}" if isinstance(value, type) else quoted(value)
    raise InputError(f"{name}: {what} is no {kind.__name__}", hint=hint)
