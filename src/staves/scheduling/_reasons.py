"""Reasons that are put in words only where somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from staves.scheduling._view import Reason


class Reasons(Mapping[str, Reason]):
    """Reasons by job id, made when the first of them is looked at.

    A simulation decides thousands of times and reads none; the words would cost it as much as the
    decisions.

    Args:
        make: returns them all; what it looks at does not change after the decision.
    """

    def __init__(self, make: Callable[[], Mapping[str, Reason]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, Reason]:
        return self._make()

    def __getitem__(self, job: str) -> Reason:
        return self._made[job]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __reduce__(self) -> tuple[type[dict[str, Reason]], tuple[dict[str, Reason]]]:
        """Be pickled as the plain dictionary that they are."""
        return dict, (dict(self),)
