"""The rows of every table, and what the comparison must show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.heet.settings import OneType, Setting, in_rounds
from staves.scheduling.heet import RESTARTS, Heet, Weights

AVERAGE, P99, MAKESPAN = "average_jct_seconds", "p99_jct_seconds", "makespan_seconds"

HEET = Setting("heet")
SIA = Setting("sia", "sia")
_ROUNDS = in_rounds(OneType(RESTARTS))

COMPARED = (
    SIA,
    Setting("sia, learned", "sia", learned=True),
    HEET,
    Setting("heet, learned", learned=True),
    Setting("heet, published pauses", in_place=False),
    Setting("heet, published pauses, learned", in_place=False, learned=True),
    Setting("heet, published pauses, one type", variant=OneType(RESTARTS), in_place=False),
    Setting("heet, published pauses, one type, rounds", variant=_ROUNDS, in_place=False),
    Setting("heet-paper", "heet-paper"),
    Setting("pollux", "pollux"),
    Setting("afs", "afs"),
    Setting("elasticflow", "elasticflow"),
    Setting("themis", "themis"),
    Setting("gavel", "gavel"),
    Setting("gavel, rigid jobs", "gavel", kind="rigid"),
)

FOUR = ("afs", "elasticflow", "themis", "gavel")


@dataclass(frozen=True)
class Gate:
    """What a ratio of average completion times must not exceed, and those of other figures.

    Args:
        what: the setting.
        over: the settings that it is divided by: of several, their median on each file.
        most: by figure.
    """

    what: str
    over: tuple[str, ...]
    most: Mapping[str, float]


GATES = (
    Gate("heet, published pauses, one type", ("sia",), {AVERAGE: 0.90, P99: 1.05, MAKESPAN: 1.08}),
    Gate("heet, published pauses", ("sia",), {AVERAGE: 0.86, P99: 1.0, MAKESPAN: 1.05}),
    Gate("heet", ("sia",), {AVERAGE: 0.70, P99: 0.85, MAKESPAN: 0.97}),
    Gate("heet, learned", ("sia, learned",), {AVERAGE: 0.75}),
    Gate("heet", ("pollux",), {AVERAGE: 0.55}),
    Gate("heet", ("gavel, rigid jobs",), {AVERAGE: 0.30}),
    Gate("heet", ("heet-paper",), {AVERAGE: 0.60}),
    Gate("heet", FOUR, {AVERAGE: 1 / 2.46}),
)

ABLATION = (
    HEET,
    Setting("no delay of those behind", variant=Heet(Weights(rank=0.0))),
    Setting("one type a job", variant=OneType()),
    Setting("rounds of 60 s", variant=in_rounds(Heet())),
    Setting("restarts", in_place=False),
    Setting("no hysteresis", variant=Heet(Weights(hysteresis=1.0))),
    Setting("exponent 1", variant=Heet(Weights(exponent=1.0))),
    Setting("no aging", variant=Heet(Weights(wait_target=math.inf))),
    Setting("prices and trades", variant=Heet(exact=False)),
)
"""Each without one of its parts; the first is whole."""


def _swept(name: str, *values: float) -> tuple[Setting, ...]:
    return tuple(
        Setting(f"{name} {value:g}", variant=Heet(Weights(**{name: value}))) for value in values
    )


SWEEP = (
    HEET,
    *_swept("exponent", 0.6, 1.2),
    *_swept("rank", 0.5, 2.0),
    *_swept("hysteresis", 1.06),
    *_swept("horizon", 1200.0),
    *_swept("wait_target", 1800.0),
)
"""Around what is set; on the tuning files only."""

_ERROR, _DRAWS = 0.2, 3
_HOURLY = 11.0  # of each of the 11 nodes: one fails every hour

ROBUST = (
    HEET,
    Setting("heet, speeds off by 20 %", belief_error=_ERROR, seeds=_DRAWS),
    SIA,
    Setting("sia, speeds off by 20 %", "sia", belief_error=_ERROR, seeds=_DRAWS),
    Setting("heet, a node fails every hour", failure_hours=_HOURLY, seeds=_DRAWS),
    Setting("sia, a node fails every hour", "sia", failure_hours=_HOURLY, seeds=_DRAWS),
    Setting("heet, every node fails every hour", failure_hours=1.0, seeds=_DRAWS),
    Setting("sia, every node fails every hour", "sia", failure_hours=1.0, seeds=_DRAWS),
)

MOST_BY_ERRORS = 1.10
"""What errors of 20 % may cost in average completion time, as a ratio."""

MIXING = (Setting("one type a job", variant=OneType()), HEET)
LOADS = (8, 4)
"""One in so many jobs of a workload comes to the small cluster: some devices idle; few do."""
LEAST_BY_MIXING = 0.10
"""What mixed types must take off the average completion time where no type fills a job alone, and
there are devices to be had."""
