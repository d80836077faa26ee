"""Whether workers still answer, and who keeps the others waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LATE = 60.0
"""Seconds without a step before the rank that the others wait for is named; more where steps have
taken long before."""


@dataclass(slots=True)
class _Life:
    """`asked`: since when a question has had no answer. `moved`: when it last came forward."""

    answers: bool = False
    asked: float | None = None
    waits: bool = False
    step: int | None = None
    moved: float = 0.0
    named: int | None = None


class Pulse:
    """What the supervisor hears of its workers; times in seconds of one clock.

    A lease is a question too: the worker's watcher thread answers it, whatever its main thread is
    doing. A worker that has never answered (its script has not come to `staves.init`, or never
    will) is not expected to.

    Args:
        silence: seconds that a question may stay without an answer.
    """

    def __init__(self, *, silence: float) -> None:
        self._silence = silence
        self._lives: dict[int, _Life] = {}
        self._longest = 0.0  # seconds of a step

    def asked(self, member: int, now: float) -> None:
        """A question is on its way to the member."""
        life = self._lives.setdefault(member, _Life())
        if life.answers and life.asked is None:
            life.asked = now

    def heard(self, member: int, message: Mapping[str, Any], now: float) -> None:
        """A message of the member has come."""
        life = self._lives.setdefault(member, _Life())
        life.asked, kind = None, message["kind"]
        if kind == "beat":
            life.answers, life.waits = True, message["waits"]
        elif kind == "formed":
            life.step, life.moved, life.waits = message["step"], now, False
        elif kind == "step":
            if life.step is not None:
                self._longest = max(self._longest, now - life.moved)
            life.step, life.moved, life.waits = message["step"] + 1, now, False
        elif kind == "evaluating":
            life.moved = now
        elif kind in ("finished", "left"):
            life.step = None

    def forget(self, member: int) -> None:
        """The process has ended."""
        self._lives.pop(member, None)

    def silent(self, now: float) -> list[int]:
        """Return the members that do not answer; take `now` before their messages are read.

        Else a supervisor that was stopped for a while would take its own silence for theirs.
        """
        return [
            member
            for member, life in self._lives.items()
            if life.asked is not None and now - life.asked >= self._silence
        ]

    def late(self, now: float) -> list[tuple[int, str]]:
        """Return the members that others wait for without end, once a step, with words for it."""
        training = {m: life for m, life in self._lives.items() if life.step is not None}
        limit = max(LATE, 5 * self._longest)
        if not any(life.waits for life in training.values()):
            return []
        if now - max(life.moved for life in training.values()) < limit:
            return []
        late = []
        for member, life in training.items():
            if not life.waits and life.named != life.step:
                life.named = life.step
                what = f"has not finished step {life.step} for {limit:.0f} s"
                late.append((member, f"{what}; the others wait for it"))
        return late
