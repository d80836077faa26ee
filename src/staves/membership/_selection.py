"""Who is in the next generation, and whose state wins (rule 2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """What a member answers to a proposal: its step, and whether its state belongs to it."""

    step: int
    complete: bool


def winner(answers: Mapping[int, Answer], among: Collection[int]) -> int | None:
    """Return the complete member with the highest step, the lowest number on a tie; or None."""
    complete = [m for m in among if answers[m].complete]
    return max(complete, key=lambda m: (answers[m].step, -m), default=None)


def keep(
    incumbents: Sequence[int],
    wanted: Collection[int],
    answers: Mapping[int, Answer],
    *,
    joiners: int,
    minimum: int,
) -> tuple[int, ...]:
    """Return the incumbents of the next generation, in their order.

    Those that are wanted; and of the others as few as are needed for one complete state among
    them, and for `minimum` members with the joiners. Thus a job that moves altogether keeps one
    member until the newcomers have its state.
    """
    kept = {m for m in incumbents if m in wanted}
    spare = [m for m in incumbents if m not in kept]
    if winner(answers, kept) is None and (best := winner(answers, spare)) is not None:
        kept.add(best)
        spare.remove(best)
    missing = max(0, minimum - len(kept) - joiners)
    kept.update(spare[:missing])
    return tuple(m for m in incumbents if m in kept)


def receivers(answers: Mapping[int, Answer], members: Sequence[int], source: int) -> list[int]:
    """Return the members whose state is not the source's; joiners have no answer that equals it."""
    return [m for m in members if answers[m] != answers[source]]
