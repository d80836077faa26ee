"""The decision in words: what a job got, what else it could have had, and who has that instead."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from staves.scheduling._configurations import as_table, in_words, too_few, unpinned, usable
from staves.scheduling._quotas import room, used
from staves.scheduling._view import Counts, JobView, Option, Reason, View
from staves.scheduling.heet._utility import Weighed, Weighing

ALTERNATIVES = 3
"""How many alternatives a reason lists."""

_EQUAL = 1.01  # rates this near are told as equal
_NAMED = 3  # of those that wait ahead of a job


def explain(
    view: View,
    weighing: Weighing,
    chosen: Mapping[str, Counts],
    prices: NDArray[np.float64],
    dues: Mapping[str, float],
) -> dict[str, Reason]:
    """Return the reason of every job, by id.

    Args:
        view: what was decided about.
        weighing: what each job's configurations are worth.
        chosen: what each job got, by id.
        prices: of one device of each type, in utility, (G,).
        dues: what a device of a tenant's quota costs besides, by tenant.
    """
    held = as_table([chosen.get(job.id, (0,) * len(prices)) for job in view.jobs], len(prices))
    held[[job.pinned for job in view.jobs]] = 0
    told = _Told(view, chosen, prices, dues, held)
    weighed = [weighing.of(index) for index in range(len(view.jobs))]
    queue = sorted(
        (item for item in weighed if item.job.id not in chosen and len(item.utility)),
        key=lambda item: -float(item.utility.max()),
    )
    place = {item.job.id: index for index, item in enumerate(queue)}
    first = [item.job.label for item in queue[:_NAMED]]
    reasons = {}
    for job, item in zip(view.jobs, weighed, strict=True):
        counts = chosen.get(job.id)
        if job.pinned and counts is not None:
            why = "it is being measured" if job.settling else "it is not elastic"
            reasons[job.id] = Reason(
                f"{in_words(counts, view.types)}: {why}, and keeps what it has.",
                told.options(item, counts)[0],
            )
        elif counts is not None:
            reasons[job.id] = told.granted(item, counts, job.maximum)
        else:
            reasons[job.id] = told.waits(item, place.get(job.id, 0), first, job)
    return reasons


class _Told:
    """What reasons say of a decision.

    Args:
        view, chosen, prices, dues: as of `explain`.
        held: devices of each job that is not pinned, (J, G).
    """

    def __init__(
        self,
        view: View,
        chosen: Mapping[str, Counts],
        prices: NDArray[np.float64],
        dues: Mapping[str, float],
        held: NDArray[np.int64],
    ) -> None:
        self._view, self._prices, self._dues = view, prices, dues
        self._has, self._room = used(view, chosen), room(view, chosen)
        self._available = unpinned(view)
        free = np.array(self._available, dtype=np.int64) - held.sum(axis=0)
        self._free: Counts = tuple(free.tolist())
        # What jobs have that are guaranteed none of it: it stays theirs for what it is worth.
        sure = np.array([bool(job.guaranteed and job.current) for job in view.jobs], dtype=bool)
        self._loose = np.where(sure[:, None], 0, held)
        settling = np.array([job.settling for job in view.jobs], dtype=bool)
        self._fresh = (held[sure & settling].sum(axis=0) > 0).tolist()
        # Of each type the two jobs that could lose most of it, the first of equals first.
        most = np.argsort(-self._loose, axis=0, kind="stable")[:2].T.tolist()
        self._rivals = [
            [(view.jobs[j], int(self._loose[j, g])) for j in jobs if self._loose[j, g]]
            for g, jobs in enumerate(most)
        ]
        self._place = {job.id: index for index, job in enumerate(view.jobs)}

    def granted(self, item: Weighed, counts: Counts, maximum: int) -> Reason:
        """Return why a job got these that could have `maximum`, but for its tenant's quota."""
        types = self._view.types
        mine, others = self.options(item, counts)
        assert mine is not None, "what is chosen was weighed"
        end = "" if math.isinf(mine.seconds) else f", {_duration(mine.seconds)} to its end"
        text = f"{in_words(counts, types)}: {_rate(mine.rate)} samples a second{end}."
        better = next((other for other in others if other.rate > mine.rate * _EQUAL), None)
        if better is not None:
            faster = f"{in_words(better.counts, types)} would be {better.rate / mine.rate:.3g} x"
            text += f" {faster} as fast, but {better.why}."
        elif item.rates.max() <= mine.rate * _EQUAL:
            most = item.job.maximum
            bound = "" if most == maximum else f": {_bound(item.job)}"
            text += f" Nothing that it may use would be faster{bound}."
        text += _deadline(self._view.now, item.job, mine)
        if mine.price:
            text += (
                f" What it gets is worth {mine.utility:.2g} to it, and {mine.price:.2g} to others."
            )
        return Reason(text, mine, others)

    def waits(self, item: Weighed, place: int, first: list[str], asked: JobView) -> Reason:
        """Return why a job got nothing that comes at this place in the queue.

        Args:
            item: the job.
            place: how many wait ahead of it.
            first: names of the first that wait.
            asked: the job, whatever its tenant's quota.
        """
        if not len(item.utility):
            there = usable(asked, self._available)
            least = max(1, asked.minimum)
            if item.job.maximum < least <= sum(there):
                needs = "1 device" if least == 1 else f"{least} devices"
                return Reason(f"It needs {needs}, and {_bound(item.job)}.")
            short = too_few(item.job.minimum, there, self._view.types)
            return Reason(f"{short}: there is no more now.")
        _, others = self.options(item, None)
        best = others[0]
        text = f"It waits: {best.why}"
        if place:
            names = ", ".join(first[:place])
            more = f" and {place - _NAMED} more" if place > _NAMED else ""
            text += f"; ahead of it wait {names}{more}."
        else:
            text += "; it is the next to start."
        if best.price:
            what = in_words(best.counts, self._view.types)
            text += (
                f" {what} would be worth {best.utility:.2g} to it, and {best.price:.2g} to others."
            )
        return Reason(text, None, others)

    def options(
        self, item: Weighed, chosen: Counts | None
    ) -> tuple[Option | None, tuple[Option, ...]]:
        """Return the chosen configuration as an option, and the best others, with why not."""
        order = np.argsort(-item.utility, kind="stable")
        mine, counted = None, math.inf
        if chosen is not None:
            same = (item.table == np.array(chosen)).all(axis=1)
            for row in np.flatnonzero(same).tolist():
                mine, counted = self._option(item, row), float(item.counted[row])
            order = order[~same[order]]
        others = []
        for row in order[:ALTERNATIVES].tolist():
            other = self._option(item, row)
            unsure = float(item.counted[row]) <= counted * _EQUAL
            others.append(replace(other, why=self._why(item.job, mine, other, unsure=unsure)))
        return mine, tuple(others)

    def _option(self, item: Weighed, row: int) -> Option:
        job, counts = item.job, tuple(item.table[row].tolist())
        return Option(
            counts,
            float(item.rates[row]),
            float(item.seconds[row]),
            float(item.utility[row]),
            price=float((self._prices + self._dues.get(job.tenant, 0.0)) @ item.table[row]),
            pause=float(item.pause[row]),
        )

    def _why(self, job: JobView, mine: Option | None, other: Option, *, unsure: bool) -> str:
        """Return why `other` was not chosen for the job, as the end of a sentence.

        Args:
            job, mine: what the job got, if anything.
            other: what it did not.
            unsure: whether that counts as hardly faster, however fast it is believed to be.
        """
        if mine is not None and other.utility <= mine.utility:  # nobody has kept it from that
            if other.rate <= mine.rate * _EQUAL:
                return "it is not faster"
            if unsure:
                return "that is not sure enough"
            lost = "" if not other.pause else f", which costs it {_duration(other.pause)}"
            return f"not by enough to pay for the change{lost}"
        had = mine.counts if mine is not None else (0,) * len(self._free)
        missing = [n - h - f for n, h, f in zip(other.counts, had, self._free, strict=True)]
        more = sum(other.counts) - sum(had)
        if more > self._room.get(job.tenant, more):
            quota = self._view.quotas[job.tenant]
            has = self._has[job.tenant]
            return f"its tenant, {job.tenant}, uses {has} of its quota of {quota}"
        lacks = [g for g, n in enumerate(missing) if n > 0]
        if lacks:
            for g in lacks:
                own = self._loose[self._place[job.id], g]
                if self._loose[:, g].sum() - own < missing[g]:
                    what = "have just changed" if self._fresh[g] else "are guaranteed devices"
                    return f"jobs that {what} keep the {self._view.types[g]}"
            g = lacks[0]
            rival, has = next((who, n) for who, n in self._rivals[g] if who.id != job.id)
            also = " and others gain" if has < missing[g] else " gains"
            return f"{rival.label}{also} more from the {self._view.types[g]}"
        return "jobs that are guaranteed their devices go first"


def _bound(job: JobView) -> str:
    """Return what bounds a job that may have less than it could use, as the end of a sentence."""
    most = f"{job.maximum} at most" if job.maximum else "none"
    return f"the quota of its tenant, {job.tenant}, leaves it {most}"


def _deadline(now: float, job: JobView, mine: Option) -> str:
    """Return whether what the job got meets its deadline, as a sentence after a space."""
    if math.isinf(job.deadline) or math.isinf(mine.seconds):
        return ""
    left = job.deadline - now
    if left < 0:
        return " Its deadline has passed."
    meets = "meets" if mine.seconds + (mine.pause or 0.0) <= left else "misses"
    return f" That {meets} its deadline, in {_duration(left)}."


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _duration(seconds: float) -> str:
    """Return `0.3 s`, `45 s`, `12 min` or `3.5 h`."""
    if seconds < 9.5:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
