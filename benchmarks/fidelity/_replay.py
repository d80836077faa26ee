"""Recorded views through a policy made anew: the same decisions, byte for byte."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from staves.scheduling import Decision, Policy


def decision_bytes(decision: Decision) -> bytes:
    """Return all that a decision says as JSON: configurations, reasons, values, what was weighed.

    Floats are written so that equal bytes are equal numbers.
    """
    document = asdict(replace(decision, weighed={}, reasons=dict(decision.reasons)))
    document["weighed"] = {
        job: [configurations.tolist(), utilities.tolist()]
        for job, (configurations, utilities) in decision.weighed.items()
    }
    return json.dumps(document, sort_keys=True, default=_plain).encode()


def differing(policy: Policy, records: Iterable[tuple[bytes, Decision]]) -> tuple[int, list[int]]:
    """Return how many decisions were replayed, and the places of those that came out otherwise."""
    count, bad = 0, []
    for view, decided in records:
        if decision_bytes(policy.decide(pickle.loads(view))) != decision_bytes(decided):
            bad.append(count)
        count += 1
    return count, bad


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} has no place in a decision")
