"""How many devices of which type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NoReturn

from staves.errors import InputError, quoted
from staves.hardware._types import check_name

_PART = re.compile(r"(\d{1,9})x(.+)", re.ASCII)


class Configuration(Mapping[str, int]):
    """An immutable, hashable count of devices by type, `2xa100+1xt4` for short.

    A mapping from type name to a count above zero, in order of the names; zeros are dropped.
    `[name]` raises KeyError for an absent type as mappings do; `count(name)` gives 0. `<=` is the
    partial order "fits in": every count at most the other's.

    Raises:
        InputError: a count is negative or no whole number, or a name is not one.
    """

    __slots__ = ("_counts", "_hash")

    _counts: dict[str, int]
    _hash: int

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        counts = counts or {}
        for name, count in counts.items():
            check_name(name, "device type")
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise InputError(
                    f"{name}: count {quoted(count)} must be a whole number, not negative"
                )
        kept = {name: counts[name] for name in sorted(counts) if counts[name]}
        object.__setattr__(self, "_counts", kept)
        object.__setattr__(self, "_hash", hash(tuple(kept.items())))

    @classmethod
    def parse(cls, text: str) -> Configuration:
        """Return the configuration that `text` writes: `2xa100+1xt4`, or `none`.

        Raises:
            InputError: `text` is not of that form.
        """
        counts: dict[str, int] = {}
        for part in [] if text.strip() == "none" else text.split("+"):
            match = _PART.fullmatch(part.strip())
            if match is None:
                raise InputError(
                    f"{quoted(text)} is not a configuration", hint="write one like 2xa100+1xt4"
                )
            counts[match[2]] = counts.get(match[2], 0) + int(match[1])
        return cls(counts)

    @property
    def total(self) -> int:
        """The number of devices."""
        return sum(self._counts.values())

    @property
    def types(self) -> tuple[str, ...]:
        """The types with at least one device, in order of their names."""
        return tuple(self._counts)

    @property
    def single_type(self) -> str | None:
        """The one type of all devices; None where there are none or several."""
        return next(iter(self._counts)) if len(self._counts) == 1 else None

    @property
    def mixed(self) -> bool:
        """Whether there are devices of several types."""
        return len(self._counts) > 1

    def count(self, name: str) -> int:
        """Return how many devices of type `name` there are, 0 for an absent one."""
        return self._counts.get(name, 0)

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        # Equal to configurations only: a dict of equal content has no equal hash.
        return self._counts == other._counts if isinstance(other, Configuration) else NotImplemented

    def __le__(self, other: Configuration) -> bool:
        return all(count <= other.count(name) for name, count in self._counts.items())

    def __lt__(self, other: Configuration) -> bool:
        return self <= other and self != other

    def __ge__(self, other: Configuration) -> bool:
        return other <= self

    def __gt__(self, other: Configuration) -> bool:
        return other < self

    def __add__(self, other: Configuration) -> Configuration:
        names = {*self._counts, *other._counts}
        return Configuration({name: self.count(name) + other.count(name) for name in names})

    def __sub__(self, other: Configuration) -> Configuration:
        """Return what is left; InputError where `other` does not fit in."""
        if not other <= self:
            raise InputError(f"cannot take {other} out of {self}")
        return Configuration({name: count - other.count(name) for name, count in self.items()})

    def __str__(self) -> str:
        return "+".join(f"{count}x{name}" for name, count in self._counts.items()) or "none"

    def __repr__(self) -> str:
        return f"Configuration({self._counts!r})"

    def __reduce__(self) -> tuple[type[Configuration], tuple[dict[str, int]]]:
        return Configuration, (self._counts,)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a configuration is immutable: cannot set {name!r}")
