"""How a user says that a batch shall be split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

Split = Literal["auto", "even"] | Sequence[int] | Callable[[int], Sequence[int]]
"""How a batch is split: see `staves.init`."""


def fixed_split(
    split: Split, world_size: int, *, first: bool
) -> Sequence[int] | Literal["even"] | None:
    """Return what a planner is not to decide itself; None where it decides all.

    A list is for one world size: in another generation than the first, of another size, the split
    is even. A function says the split of each step by itself.
    """
    if split == "even" or callable(split):
        return "even"
    if isinstance(split, str):
        return None
    return split if first or len(split) == world_size else "even"
