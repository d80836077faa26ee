"""What goes wrong in a cluster, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from staves.errors import InputError
from staves.simulation._availability import Availability


@dataclass(frozen=True, slots=True)
class Conditions:
    """Failures and stragglers, all drawn from one seed.

    Args:
        seed: of all that is drawn.
        failure_seconds: mean time of a node between its repair and its next failure, exponential
            and independent; inf: none fails.
        repair_seconds: mean time that a node is away, exponential.
        checkpoint_seconds: seconds of training between two checkpoints. A change of devices is one.
        in_place: whether a job goes on with the devices that are left to it when a node fails; else
            it falls back to its last checkpoint, and starts anew.
        straggler_share: the share of nodes that are slow for good.
        straggler_slowdown: by what factor their steps are longer; a job waits for its slowest node.
        availability: which nodes are there when, in place of drawn failures; None: all always.
        free_moves: whether a change to other nodes, as many devices on each as before, costs
            nothing, as in the simulators of Sia and Pollux.

    Raises:
        InputError: a time or factor is out of range.
    """

    seed: int = 0
    failure_seconds: float = math.inf
    repair_seconds: float = 3600.0
    checkpoint_seconds: float = 300.0
    in_place: bool = False
    straggler_share: float = 0.0
    straggler_slowdown: float = 2.0
    free_moves: bool = False
    availability: Availability | None = None

    def __post_init__(self) -> None:
        for name in ("failure_seconds", "repair_seconds", "checkpoint_seconds"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be above zero, but is {getattr(self, name)}")
        if self.availability is not None and math.isfinite(self.failure_seconds):
            raise InputError(
                "failures are drawn, or follow an availability trace, not both",
                hint="leave one of the two out",
            )
        if not math.isfinite(self.repair_seconds):
            raise InputError("repair_seconds must be finite", hint="give the mean repair time")
        if not 0 <= self.straggler_share <= 1:
            raise InputError(f"straggler_share must be from 0 to 1, not {self.straggler_share}")
        if not self.straggler_slowdown >= 1:
            raise InputError(
                f"straggler_slowdown must be at least 1, but is {self.straggler_slowdown}"
            )

    @property
    def nodes_fail(self) -> bool:
        """Whether nodes may go away."""
        return self.availability is not None or math.isfinite(self.failure_seconds)

    def slowdowns(self, nodes: Sequence[str]) -> dict[str, float]:
        """Return the factor of every slow node."""
        draw = np.random.default_rng([self.seed, 1]).random(len(nodes))
        slow = draw < self.straggler_share
        return {
            name: self.straggler_slowdown
            for name, is_slow in zip(nodes, slow, strict=True)
            if is_slow
        }

    def draws(self) -> np.random.Generator:
        """Return the source of times to failure and to repair."""
        return np.random.default_rng([self.seed, 2])
