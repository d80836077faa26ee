"""`staves plan`: which split to expect, before training."""

from __future__ import annotations


def plan() -> None:
    """Show the optimal split of a batch and what it gains, before training."""
