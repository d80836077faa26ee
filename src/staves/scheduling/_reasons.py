"""Reasons, and other things that are told of jobs, made only where somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

from staves.scheduling._view import Reason

V = TypeVar("V")


class Later(Mapping[str, V]):
    """Values by job id, made when the first of them is looked at.

    A simulation decides thousands of times and reads none; the words would cost it as much as the
    decisions.

    Args:
        make: returns them all; what it looks at does not change after the decision.
    """

    def __init__(self, make: Callable[[], Mapping[str, V]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, V]:
        return self._make()

    def __getitem__(self, job: str) -> V:
        return self._made[job]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __reduce__(self) -> tuple[type[dict[str, V]], tuple[dict[str, V]]]:
        """Be pickled as the plain dictionary that they are."""
        return dict, (dict(self),)


class Reasons(Later[Reason]):
    """Reasons by job id."""
