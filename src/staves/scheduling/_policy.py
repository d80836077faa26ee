"""The contract of a policy: one method, pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from staves.scheduling._place import Placing
from staves.scheduling._view import Decision, View

JobKind = Literal["adaptive", "elastic", "rigid"]
"""adaptive: any number of devices, and the batch of greatest goodput. elastic: any number, a fixed
batch. rigid: the number and the batch that its owner asked for."""

Estimator = Literal["sia", "product"]
"""sia: fits of Sia's throughput model (`estimation.SiaRates`). product: this product's step-time
lines (`estimation.JobProfile`)."""


class Policy(ABC):
    """Decides which job has what. The service and the simulator call the very same object.

    A policy keeps nothing from one decision to the next that the view does not say: the same view
    gives the same decision.
    """

    name: ClassVar[str]

    job_kind: ClassVar[JobKind] = "adaptive"
    """What it takes jobs for in a simulation where nothing else is said."""

    in_place: ClassVar[bool] = False
    """Whether the system it belongs to changes running jobs in place, without a restart."""

    estimator: ClassVar[Estimator | None] = None
    """What its system learns jobs' speeds with; None: nothing, and a simulation tells the truth."""

    round_seconds: float | None = 60.0
    """Seconds between two decisions when nothing happens; None: only when something happens."""

    at_events: bool = True
    """Whether arrivals, ends and failures call for a decision at once, or wait for the round."""

    placing: ClassVar[Placing] = "packed"
    """How its counts become devices."""

    quotas: ClassVar[bool] = False
    """Whether its decisions keep to `View.quotas`. One that does not is given no view with any."""

    @abstractmethod
    def decide(self, view: View) -> Decision:
        """Return the decision.

        It holds: the sum over jobs fits in `view.capacity`; a pinned job keeps what it has; an
        elastic job has nothing, or between its minimum and its maximum of types it may use; jobs of
        one tenant have no more devices together than its quota, but for what is pinned or
        guaranteed already.
        """
