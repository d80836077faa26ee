"""Traces of small training jobs, drawn by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"

_APPLICATIONS = {
    # batch, and the least and the most passes over its data: 15 to 35 thousand samples or so
    "digits": (128, 10, 24),
    "table": (96, 30, 70),
    "highlight": (128, 6, 14),
    "charlm": (128, 5, 11),
}
_MEAN_GAP = 5.5  # seconds between two arrivals


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace.

    Args:
        name: unique.
        application: which of the examples it runs.
        arrival: seconds after the trace's begin.
        batch: samples a step.
        epochs: passes over its data.
        document: its job file.
    """

    name: str
    application: str
    arrival: float
    batch: int
    epochs: int
    document: dict[str, Any]


def draw(seed: int, jobs: int = 12, *, length: float = 1.0) -> list[TraceJob]:
    """Return a trace: arrivals at random, four applications, lengths, minima, limits, priorities.

    Jobs run the scripts of `examples/`, real and small, so that two cores carry all of them.
    `length` times as many passes as usual, and as long between arrivals.
    """
    chance = random.Random(seed)
    arrival, drawn = 0.0, []
    for number in range(jobs):
        application = chance.choice(sorted(_APPLICATIONS))
        batch, least, most = _APPLICATIONS[application]
        epochs = round(length * chance.randint(least, most))
        minimum = chance.choice([1, 1, 1, 2, 3])
        devices: dict[str, Any] = {"min": minimum, "max": chance.choice([3, 4, 6, 8])}
        if chance.random() < 0.25:
            devices["types"] = ["a100", "v100"]
            devices["max"] = min(devices["max"], 5)
        name = f"{application}-{number}"
        document = {
            "name": name,
            "run": f"python {application}.py --epochs {epochs} --batch {batch}",
            "workdir": str(EXAMPLES),
            "devices": devices,
            "batch": {"reference": batch, "scaling": "fixed"},
            "priority": chance.choice([30, 50, 50, 80]),
        }
        drawn.append(TraceJob(name, application, arrival, batch, epochs, document))
        arrival += length * chance.expovariate(1 / _MEAN_GAP)
    return drawn
