"""The decision in words: what a job got, what else it could have had, and who has that instead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from staves.scheduling._configurations import in_words, unpinned, usable
from staves.scheduling._view import Counts, JobView, Option, Reason, View
from staves.scheduling.heet._utility import Weighed

ALTERNATIVES = 3
"""How many alternatives a reason lists."""


def explain(
    view: View, weighed: Sequence[Weighed], chosen: Mapping[str, Counts]
) -> dict[str, Reason]:
    """Return the reason of every job, by id."""
    held = np.array(unpinned(view), dtype=np.int64)
    for job in view.jobs:
        if not job.pinned and job.id in chosen:
            held -= np.array(chosen[job.id], dtype=np.int64)
    free: Counts = tuple(held.tolist())
    queue = sorted(
        (item for item in weighed if item.job.id not in chosen and len(item.utility)),
        key=lambda item: -float(item.utility.max()),
    )
    ahead = {item.job.id: [other.job.id for other in queue[:i]] for i, item in enumerate(queue)}
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
    end = "" if math.isinf(mine.seconds) else f", {_duration(mine.seconds)} to its end"
    text = f"{in_words(counts, view.types)}: {mine.rate:.3g} samples a second{end}."
    better = next((other for other in others if other.rate > mine.rate * 1.01), None)
    if better is None:
        return Reason(f"{text} Nothing that it may use would be faster.", mine, others)
    text += (
        f" {in_words(better.counts, view.types)} would be {better.rate / mine.rate:.2g} x as fast, "
    )
    lacks = [g for g, n in enumerate(better.counts) if n > counts[g] + free[g]]
    rival = _holder(view, item.job, lacks, chosen)
    if rival is not None:
        text += f"but {rival} gains more from the {view.types[lacks[0]]} there."
    elif lacks:
        text += f"but there are too few {view.types[lacks[0]]}."
    else:
        text += "but not by enough to pay for the pause."
    return Reason(text, mine, others)


def _waits(
    view: View, item: Weighed, ahead: list[str], free: Counts, chosen: Mapping[str, Counts]
) -> Reason:
    job = item.job
    if not len(item.utility):
        return Reason(
            f"{max(1, job.minimum)} devices are needed to run it, and there are"
            f" {in_words(usable(job, unpinned(view)), view.types)} that it may use."
        )
    _, others = _options(item, None)
    lacks = [g for g, n in enumerate(others[0].counts) if n > free[g]]
    rival = _holder(view, job, lacks, chosen)
    text = "It waits: "
    text += f"{rival} gains more from" if rival else "too few are left of"
    text += f" the {view.types[lacks[0]] if lacks else 'devices'} that it needs"
    if ahead:
        names = ", ".join(ahead[:3]) + (f" and {len(ahead) - 3} more" if len(ahead) > 3 else "")
        return Reason(f"{text}; {names} wait ahead of it.", None, others)
    return Reason(f"{text}; it is the next to start.", None, others)


def _options(item: Weighed, chosen: Counts | None) -> tuple[Option | None, tuple[Option, ...]]:
    """Return the chosen configuration as an option, and the best others."""
    mine: Option | None = None
    others: list[Option] = []
    for row in np.argsort(-item.utility, kind="stable").tolist():
        option = Option(
            tuple(item.table[row].tolist()),
            float(item.rates[row]),
            float(item.seconds[row]),
            float(item.utility[row]),
        )
        if option.counts == chosen:
            mine = option
        elif len(others) < ALTERNATIVES:
            others.append(option)
        if len(others) == ALTERNATIVES and (mine is not None or chosen is None):
            break
    return mine, tuple(others)


def _holder(
    view: View, job: JobView, types: Sequence[int], chosen: Mapping[str, Counts]
) -> str | None:
    """Return the other job that has most of these types; None where nobody has any."""
    most, name = 0, None
    for other in view.jobs:
        counts = chosen.get(other.id)
        if other.id != job.id and counts is not None:
            has = sum(counts[g] for g in types[:1])
            if has > most:
                most, name = has, other.id
    return name


def _duration(seconds: float) -> str:
    """Return `45 s`, `12 min` or `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
