"""The decision in words: what a job got, what else it could have had, and who has that instead."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from staves.scheduling._configurations import in_words, too_few, unpinned, usable
from staves.scheduling._view import Counts, JobView, Option, Reason, View
from staves.scheduling.heet._utility import Weighed, Weighing

ALTERNATIVES = 3
"""How many alternatives a reason lists."""

_EQUAL = 1.01  # rates this near are told as equal


def explain(view: View, weighing: Weighing, chosen: Mapping[str, Counts]) -> dict[str, Reason]:
    """Return the reason of every job, by id."""
    weighed = [weighing.of(index) for index in range(len(view.jobs))]
    held = np.array(unpinned(view), dtype=np.int64)
    for job in view.jobs:
        if not job.pinned and job.id in chosen:
            held -= np.array(chosen[job.id], dtype=np.int64)
    free: Counts = tuple(held.tolist())
    queue = sorted(
        (item for item in weighed if item.job.id not in chosen and len(item.utility)),
        key=lambda item: -float(item.utility.max()),
    )
    ahead = {item.job.id: [other.job.label for other in queue[:i]] for i, item in enumerate(queue)}
    reasons = {}
    for item in weighed:
        counts = chosen.get(item.job.id)
        if item.job.pinned and counts is not None:
            reasons[item.job.id] = Reason(
                f"{in_words(counts, view.types)}: it is not elastic, and keeps what it has.",
                _options(item, counts)[0],
            )
        elif counts is not None:
            reasons[item.job.id] = _granted(view, item, counts, free, chosen)
        else:
            reasons[item.job.id] = _waits(view, item, ahead.get(item.job.id, []), free, chosen)
    return reasons


def _granted(
    view: View, item: Weighed, counts: Counts, free: Counts, chosen: Mapping[str, Counts]
) -> Reason:
    mine, others = _options(item, counts)
    assert mine is not None, "what is chosen was weighed"
    others = tuple(replace(o, why=_why(view, item.job, mine, o, free, chosen)) for o in others)
    end = "" if math.isinf(mine.seconds) else f", {_duration(mine.seconds)} to its end"
    text = f"{in_words(counts, view.types)}: {_rate(mine.rate)} samples a second{end}."
    better = next((other for other in others if other.rate > mine.rate * _EQUAL), None)
    if better is not None:
        faster = f"{in_words(better.counts, view.types)} would be {better.rate / mine.rate:.2g} x"
        text += f" {faster} as fast, but {better.why}."
    elif item.rates.max() <= mine.rate * _EQUAL:
        text += " Nothing that it may use would be faster."
    return Reason(text, mine, others)


def _waits(
    view: View, item: Weighed, ahead: list[str], free: Counts, chosen: Mapping[str, Counts]
) -> Reason:
    job = item.job
    if not len(item.utility):
        there = usable(job, unpinned(view))
        return Reason(f"{too_few(job.minimum, there, view.types)}: there is no more now.")
    _, others = _options(item, None)
    others = tuple(replace(o, why=_why(view, job, None, o, free, chosen)) for o in others)
    text = f"It waits: {others[0].why}"
    if ahead:
        names = ", ".join(ahead[:3]) + (f" and {len(ahead) - 3} more" if len(ahead) > 3 else "")
        return Reason(f"{text}; ahead of it wait {names}.", None, others)
    return Reason(f"{text}; it is the next to start.", None, others)


def _why(
    view: View,
    job: JobView,
    mine: Option | None,
    other: Option,
    free: Counts,
    chosen: Mapping[str, Counts],
) -> str:
    """Return why `other` was not chosen for the job, as the end of a sentence."""
    had = mine.counts if mine is not None else (0,) * len(free)
    missing = [n - h - f for n, h, f in zip(other.counts, had, free, strict=True)]
    lacks = [g for g, n in enumerate(missing) if n > 0]
    if lacks:
        g = lacks[0]
        rival, has = _holder(view, job, g, chosen)
        also = " and others gain" if has < missing[g] else " gains"
        return f"{rival}{also} more from the {view.types[g]}"
    if mine is None or other.utility > mine.utility:
        return "jobs that are guaranteed their devices go first"
    if other.rate > mine.rate * _EQUAL:
        return "not by enough to pay for the change"
    return "it is not faster"


def _options(item: Weighed, chosen: Counts | None) -> tuple[Option | None, tuple[Option, ...]]:
    """Return the chosen configuration as an option, and the best others."""
    order = np.argsort(-item.utility, kind="stable")
    if chosen is None:
        return None, tuple(_option(item, row) for row in order[:ALTERNATIVES].tolist())
    same = (item.table == np.array(chosen)).all(axis=1)
    mine = [_option(item, row) for row in np.flatnonzero(same).tolist()]
    others = order[~same[order]][:ALTERNATIVES].tolist()
    return (mine[0] if mine else None), tuple(_option(item, row) for row in others)


def _option(item: Weighed, row: int) -> Option:
    return Option(
        tuple(item.table[row].tolist()),
        float(item.rates[row]),
        float(item.seconds[row]),
        float(item.utility[row]),
    )


def _holder(view: View, job: JobView, g: int, chosen: Mapping[str, Counts]) -> tuple[str, int]:
    """Return the other job that has most devices of type `g`, and how many."""
    held = [
        (chosen[other.id][g], -index, other.label)
        for index, other in enumerate(view.jobs)
        if other.id in chosen and other.id != job.id and not other.pinned
    ]
    most, _, name = max(held)  # somebody has them, or they would be free
    return name, most


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _duration(seconds: float) -> str:
    """Return `45 s`, `12 min` or `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
