"""From places to verdicts: pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.mixed.judging import error

LIMIT = 0.10
"""What a predicted step may be off by."""


def preferred(case: Mapping[str, Any], way: str) -> str:
    """Return the place with the shortest step, by `way`: predicted, measured, without_link."""
    places: Mapping[str, Mapping[str, float]] = case["places"]
    return min(places, key=lambda place: places[place][f"{way}_seconds"])


def judged(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the errors of all predictions, and in how many cases the faster place was foretold.

    Args:
        cases: as of `measuring.measure`.
    """
    found = {}
    for way in ("predicted", "without_link"):
        errors = [abs(error(place, way)) for case in cases for place in case["places"].values()]
        right = sum(preferred(case, way) == preferred(case, "measured") for case in cases)
        found[way] = {
            "median": statistics.median(errors),
            "worst": max(errors),
            "within": sum(each <= LIMIT for each in errors),
            "preferred_rightly": right,
        }
    return {
        "steps_predicted": sum(len(case["places"]) for case in cases),
        "limit": LIMIT,
        "ways": found,
        "void": any(case["void"] for case in cases),
    }
