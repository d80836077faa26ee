"""Which total batch to train with: the one of greatest goodput. Pure: no torch, no clock."""

from __future__ import annotations

from dataclasses import dataclass, replace

from staves.convergence import best_batch, goodput
from staves.errors import InputError
from staves.steptime import StepTimeModel
from staves.training._accumulation import accumulated

WORTHWHILE = 1.02
"""Ratio of goodputs from which on another batch is taken: below it the noise scale is not known
well enough. The change itself costs next to nothing."""
GROWTH = 4
"""How many times as large the next batch may be: times far beyond those measured are guesses."""

_PATIENCE = 2  # numbers of micro-steps tried beyond the best


@dataclass(frozen=True, slots=True)
class BatchRange:
    """The total batches that may be trained with, in samples, and the reference batch."""

    reference: int
    least: int
    most: int

    @property
    def adaptive(self) -> bool:
        """Whether there is anything to choose."""
        return self.most > self.least


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a batch was taken or kept.

    Args:
        before, chosen: the batch so far and from now on, in samples.
        best: the batch of greatest goodput.
        ratio: its goodput beside that of the batch so far.
        most: the greatest that may be chosen.
    """

    before: int
    chosen: int
    best: int
    ratio: float
    most: int

    def describe(self) -> str:
        """Return a part of a line for people."""
        gain = f"{(self.ratio - 1) * 100:.0f} %"
        if self.chosen != self.before:
            return f"batch {self.before} -> {self.chosen}: {gain} more goodput"
        if self.best != self.before:
            return f"batch stays {self.before}: {self.best} would gain {gain}"
        if self.before == self.most:
            return f"batch stays {self.before}: the largest allowed, and the best"
        return f"batch stays {self.before}: the best now"

    @property
    def kind(self) -> tuple[int, bool]:
        """What of it is worth another line: not that the estimate of a gain has moved a little."""
        return self.chosen, self.best == self.before


@dataclass(frozen=True, slots=True)
class Choice:
    """A total batch, its micro-steps, and its goodput in reference samples a second."""

    batch: int
    micro_steps: int
    goodput: float
    verdict: Verdict | None = None


def choose_batch(
    model: StepTimeModel,
    noise_scale: float,
    allowed: BatchRange,
    *,
    current: int,
    micro_steps: int,
    least_micro_steps: int,
) -> Choice:
    """Return the batch of greatest goodput, or the current one where that gains too little.

    Exact over all batches from the least to GROWTH times the current one, for each number of
    micro-steps in turn, until more of them are no better.

    Args:
        model: of single micro-steps, `max_batch` what a device holds at once.
        noise_scale: in samples.
        allowed: the batches to choose from.
        current: the batch in use, in samples, and its `micro_steps`.
        least_micro_steps: fewer are not wanted.
    """
    most = min(allowed.most, GROWTH * current)
    best = kept = _kept(model, noise_scale, allowed.reference, current, micro_steps)
    worse = 0
    for steps in range(least_micro_steps, most + 1):
        found = _best(accumulated(model, steps), noise_scale, allowed, most, steps)
        if found is not None and found.goodput > best.goodput:
            best, worse = found, 0
        elif found is not None:
            worse += 1
        if worse == _PATIENCE or _holds(model, most, steps):
            break
    chosen = best if best.goodput > WORTHWHILE * kept.goodput else kept
    ratio = best.goodput / kept.goodput
    verdict = Verdict(current, chosen.batch, best.batch, ratio, allowed.most)
    return replace(chosen, verdict=verdict)


def _kept(
    model: StepTimeModel, noise_scale: float, reference: int, batch: int, micro_steps: int
) -> Choice:
    whole = accumulated(model, micro_steps)
    return Choice(batch, micro_steps, goodput(whole, batch, noise_scale, reference))


def _best(
    model: StepTimeModel, noise_scale: float, allowed: BatchRange, most: int, micro_steps: int
) -> Choice | None:
    try:
        best = best_batch(model, noise_scale, allowed.reference, most)
    except InputError:  # so few micro-steps do not hold even the least batch
        return None
    return Choice(best.batch, micro_steps, best.goodput)


def _holds(model: StepTimeModel, batch: int, micro_steps: int) -> bool:
    """Whether more micro-steps would hold no more of the batches in question."""
    caps = [device.max_batch for device in model.devices]
    return any(cap is None for cap in caps) or sum(c or 0 for c in caps) * micro_steps >= batch
