"""Missed deadlines of emulated devices, added up over the members of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staves.hardware import MISSES_ALLOWED


class Deadlines:
    """Hears how many steps of each emulated device were late; real devices have no deadline.

    Members tell it now and then, when they leave and when they have finished: also a run that was
    stopped or has lost members knows whether its figures are void.
    """

    def __init__(self) -> None:
        self._told: dict[int, tuple[int, int]] = {}

    def take(self, member: int, message: Mapping[str, Any]) -> None:
        """Take in a member's message, of any kind; counts replace what it told before."""
        told = message.get("report", message).get("deadlines")
        if told is not None:
            self._told[member] = told["steps"], told["missed"]

    def figures(self) -> dict[str, Any]:
        """Return `deadlines`, with its `device_steps` and how many of them `missed`, and `void`:
        whether these are too many. Nothing where no device was emulated."""
        if not self._told:
            return {}
        steps = sum(of for of, _ in self._told.values())
        missed = sum(late for _, late in self._told.values())
        return {"deadlines": {"device_steps": steps, "missed": missed}, "void": self.void}

    @property
    def void(self) -> bool:
        """Whether over `MISSES_ALLOWED` of the steps were late."""
        steps = sum(of for of, _ in self._told.values())
        return sum(late for _, late in self._told.values()) > MISSES_ALLOWED * steps
