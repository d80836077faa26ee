"""From steps to figures: pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

SETTLE = 2
"""Steps after a change of plan that do not count: the first has no begin, the second may set up."""

LIMIT = 0.05
"""What a predicted step may be off by."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Steps on the same devices.

    Args:
        seconds: of each, one at least.
        local_batches: of each device by type, in the last of them.
    """

    seconds: tuple[float, ...]
    local_batches: Mapping[str, Sequence[int]]

    @property
    def median(self) -> float:
        """Their typical time."""
        return statistics.median(self.seconds)

    def document(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        low, _, high = (
            statistics.quantiles(self.seconds, n=4) if len(self.seconds) > 1 else [self.median] * 3
        )
        return {
            "measured_seconds": self.median,
            "quartiles_seconds": [low, high],
            "steps": len(self.seconds),
            "local_batches": {kind: list(own) for kind, own in self.local_batches.items()},
        }


def settled(rows: Sequence[Mapping[str, Any]]) -> Measured:
    """Return the steps by computed splits, without those just after a change of plan.

    Args:
        rows: in the order of their steps, all on the same devices.

    Raises:
        ValueError: no step is left.
    """
    seconds, since = [], 0
    for before, row in pairwise(rows):
        alike = before["plan"] == row["plan"] and before["devices"] == row["devices"]
        since = since + 1 if alike else 0
        if row["stage"] == "optimal" and since >= SETTLE:
            seconds.append(row["at"] - before["at"])
    if not seconds:
        raise ValueError("no step is left")
    kinds = [name.rpartition("/")[2].rpartition("-")[0] for name in rows[-1]["devices"]]
    pairs = zip(kinds, rows[-1]["local_batches"], strict=True)
    return Measured(tuple(seconds), by_type(pairs))


def by_type(pairs: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the samples of each type's devices, the types by name, the most samples first."""
    found: dict[str, list[int]] = {}
    for kind, samples in sorted(pairs, key=lambda pair: (pair[0], -pair[1])):
        found.setdefault(kind, []).append(samples)
    return found


def judged(cases: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the median and the worst error of every way of predicting, over all mixes.

    Errors are |predicted / measured - 1|.

    Args:
        cases: as `measuring.measure` returns them, by cluster.
    """
    mixes = [mix for case in cases.values() for mix in case["mixes"].values()]
    found = {}
    for way in ("predicted", "trainer_predicted", "last_ring"):
        errors = [abs(error(mix, way)) for mix in mixes]
        found[way] = {"median": statistics.median(errors), "worst": max(errors)}
    return {
        "mixes": len(mixes),
        "errors": found,
        "limit": LIMIT,
        "within": sum(abs(error(mix)) <= LIMIT for mix in mixes),
        "void": any(case["void"] for case in cases.values()),
    }


def error(mix: Mapping[str, Any], way: str = "predicted") -> float:
    """Return how much longer the step was predicted than it was measured, as a share of that."""
    return float(mix[f"{way}_seconds"] / mix["measured_seconds"] - 1)
