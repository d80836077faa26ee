"""Proof from the ledger that every sample was trained exactly once an epoch (rule 19)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from staves.membership._ledger import Row, Step, replay

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class EpochProof:
    """One epoch: how many distinct samples it covered, and where it did not tile the data set."""

    epoch: int
    samples: int
    gaps: tuple[Interval, ...]
    overlaps: tuple[Interval, ...]
    unfinished: bool


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether each sample was trained once an epoch, in one order, and if not, why not."""

    ok: bool
    epochs: tuple[EpochProof, ...]
    problems: tuple[str, ...]
    steps: int
    voided: int


def prove(rows: Iterable[Row | str], length: int | None, drop_last: bool = False) -> Proof:
    """Prove that the surviving history tiles [0, length) in order in every epoch.

    The last epoch may be cut: it is reported as unfinished. With `drop_last`, an epoch may leave
    out a tail that is shorter than its last batch.

    Args:
        rows: of the ledger, as mappings or as lines of JSON.
        length: samples in the data set; None for a stream: a pass has as many as were trained.
        drop_last: whether the loader leaves out a short last batch.
    """
    history = replay(rows)
    problems = list(history.problems)
    by_epoch: dict[int, list[Step]] = {}
    newest = -1
    for step in history.steps:
        if step.epoch < newest:
            problems.append(
                f"line {step.line}: step {step.step} goes back to epoch {step.epoch} "
                f"from epoch {newest}"
            )
        newest = max(newest, step.epoch)
        by_epoch.setdefault(step.epoch, []).append(step)
    problems += [f"epoch {e} is missing" for e in range(newest) if e not in by_epoch]
    epochs = [
        _epoch(epoch, steps, length, drop_last, epoch == newest, problems)
        for epoch, steps in sorted(by_epoch.items())
    ]
    return Proof(not problems, tuple(epochs), tuple(problems), len(history.steps), history.voided)


def _epoch(
    epoch: int,
    steps: list[Step],
    length: int | None,
    drop_last: bool,
    last: bool,
    problems: list[str],
) -> EpochProof:
    if length is None:
        length = max(step.stop for step in steps)
    cursor, samples = 0, 0
    gaps: list[Interval] = []
    overlaps: list[Interval] = []
    for step in steps:
        where = f"line {step.line}: step {step.step} of epoch {epoch}"
        if step.start > cursor:
            gaps.append((cursor, step.start))
            problems.append(f"{where} leaves out samples [{cursor}, {step.start})")
        if step.start < cursor and step.stop > step.start:
            overlaps.append((step.start, min(cursor, step.stop)))
            problems.append(f"{where} takes samples [{step.start}, {overlaps[-1][1]}) again")
        if step.stop > length:
            problems.append(f"{where} takes samples up to {step.stop} of {length}")
        samples += max(0, min(step.stop, length) - max(cursor, step.start))
        cursor = max(cursor, step.stop)
    tail = length - cursor
    unfinished = tail > 0 and not (drop_last and tail < sum(steps[-1].local_batches))
    if unfinished and not last:
        gaps.append((cursor, length))
        problems.append(f"epoch {epoch} leaves out samples [{cursor}, {length}) at its end")
    return EpochProof(epoch, samples, tuple(gaps), tuple(overlaps), unfinished)
