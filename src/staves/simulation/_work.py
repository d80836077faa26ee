"""What a job truly is: its phases, and how fast it advances where it really stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from staves.hardware import Allocation
from staves.scheduling import JobView, Rates

Placement = tuple[tuple[int, ...], ...]
"""Where a job stands: for each type, how many devices on each node that has some, most first."""


def placement_of(allocation: Allocation, types: Sequence[str]) -> Placement:
    """Return the placement of `allocation`, types in the order of `types`."""
    nodes: dict[str, dict[str, int]] = {name: {} for name in types}
    for device in allocation.devices:
        of_type = nodes[device.type.name]
        of_type[device.node] = of_type.get(device.node, 0) + 1
    return tuple(tuple(sorted(nodes[name].values(), reverse=True)) for name in types)


class Work(Protocol):
    """The truth about one job. May learn from where it stood: one object for one job of one run.

    `marks` are the reference samples after which a phase (an epoch) ends, ascending; the last is
    all of its work. In a phase and a placement the rate is constant.
    """

    @property
    def marks(self) -> tuple[float, ...]:
        """The ends of the phases in reference samples."""
        ...

    def rate(self, phase: int, placement: Placement) -> float:
        """Return reference samples a second; asked at each phase's start and each new placement."""
        ...

    def trained(self, phase: int) -> bool:
        """Note that it has trained at the last `rate`; say whether it would now be another."""
        ...

    def rates(self, phase: int) -> Rates:
        """Return what is believed of the job's rates in this phase."""
        ...

    def step_work(self, phase: int) -> float:
        """Return the reference samples that a step is worth where the batch is fixed; else 0."""
        ...

    def measured(self, phase: int, placement: Placement) -> bool:
        """Say whether the rate there rests on measurements, and not on what lies outside."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FluidWork:
    """One phase, and a rate that depends on the counts by type only; belief and truth are one.

    Args:
        believed: the rates.
        total: all of the work, reference samples.
    """

    believed: Rates
    total: float

    @property
    def marks(self) -> tuple[float, ...]:
        """The end."""
        return (self.total,)

    def rate(self, phase: int, placement: Placement) -> float:
        """Return the believed rate of these counts."""
        counts = [sum(nodes) for nodes in placement]
        return float(self.believed(np.array([counts], dtype=np.int64))[0])

    def trained(self, phase: int) -> bool:
        """Return False: there is nothing to learn."""
        return False

    def rates(self, phase: int) -> Rates:
        """Return the rates."""
        return self.believed

    def step_work(self, phase: int) -> float:
        """Return 0: there are no steps."""
        return 0.0

    def measured(self, phase: int, placement: Placement) -> bool:
        """Return True: there is nothing but the rates."""
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """One job of a workload.

    Args:
        view: id, submission, limits, pauses; its rates and work are not looked at.
        work: the truth.
        ended: called once it has ended: what was measured of it is known from then on.
    """

    view: JobView
    work: Work
    ended: Callable[[], None] | None = None
