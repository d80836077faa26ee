"""What a policy sees, and what it answers: frozen values; no clock, no I/O, nothing of an engine.

Configurations are rows of counts by device type, in the order of `View.types`: a policy looks at
many of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Counts = tuple[int, ...]
"""One configuration: how many devices of each type, in the order of `View.types`."""


class Rates(Protocol):
    """The belief about one job's speed on any configuration.

    A protocol: estimators stand on a floor below, and need not know of policies.
    """

    def __hash__(self) -> int: ...

    def __call__(self, configurations: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return goodput in reference samples a second.

        Args:
            configurations: shape (C, G), devices of each type.

        Returns:
            Shape (C,); 0 where the job cannot run.
        """
        ...


def is_fixed(rates: Rates) -> bool:
    """Say whether rates are always the same: whether they have an attribute `fixed` that is true.

    What follows from such rates alone may be kept from one decision to the next.
    """
    return bool(getattr(rates, "fixed", False))


Doubt = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""How sure rates are: configurations (C, G) in, the standard deviation of ln(rate), (C,), out."""


def doubt_of(rates: Rates) -> Doubt | None:
    """Return how sure rates are, where they say so themselves: their method `log_std`."""
    found: Doubt | None = getattr(rates, "log_std", None)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class JobView:
    """One job that wants devices or has some.

    Args:
        id: unique, and stable through the job's life.
        submitted: when it came, in seconds of the view's clock.
        rates: how fast it would run.
        remaining: work that is left in reference samples; inf where it is not known.
        minimum, maximum: devices it may have while it runs.
        types: the device types it may use, as indices into `View.types`; None for all.
        mix: whether devices of several types may work on it together.
        weight: of its delay against that of others; above zero.
        elastic: whether it can be resized and preempted. One that cannot keeps what it has.
        current: what it has; None while it has nothing.
        guaranteed: how many of the devices that it has are never taken from it.
        settling: whether it keeps its devices because it is being measured, or has just changed;
            it only tells why.
        attained: device-seconds it has had so far.
        waiting: seconds that it was without devices, less those that it had some, never below 0.
            A job that comes to run after a long wait thus stays urgent for a while: else the next
            decision would take its devices again, before it has left its start pause.
        start_pause, resize_pause: seconds that it stands still when it is started, and when it is
            changed in place.
        resize_delay: seconds from a change in place that gives it other devices until these are at
            work. It trains on meanwhile as it was, so that what it loses is less.
        pause_left: seconds that are left of a pause under way.
        unmeasured: types on which it has never run (indices): its rates there are guesses.
        probes: those of `unmeasured` that are worth a probe, the one that tells most first; None
            where nothing tells which are.
        log_std: how sure `rates` are; None where nothing tells.
        tenant: whose it is, for `View.quotas`; empty where that is not known.
        name: how reasons name it; the id where it is empty.
        application: the kind of job that it is, where that has a name; empty for none.
        age: seconds since it first started; 0 before.
        restarts: changes of its devices so far, the first start not counted.
        requested: devices that its owner asked for; 0 where nothing was asked.
        scale_limit: devices beyond which nothing is known of its scaling, by what it has run on;
            None for no such limit.
        progress: reference samples that it has done.
        held_seconds: how long it has had devices of each type, in seconds, by type; empty for
            never. Unlike `attained`, however many devices these were.
        step_work: reference samples that one of its steps is worth, where its batch is fixed: its
            rate over that is steps a second; 0 where it is not known.
        deadline: when it should have ended, in seconds of the view's clock; inf for no such time.
        unchanged: seconds since its devices last changed; inf where that is not known.
        steps_left: steps that are left at its fixed batch; inf where that is not known. Unlike
            reference samples, of which steps are worth more and more, they pass at one speed.
    """

    id: str
    submitted: float
    rates: Rates
    remaining: float = math.inf
    minimum: int = 1
    maximum: int = 1
    types: frozenset[int] | None = None
    mix: bool = True
    weight: float = 1.0
    elastic: bool = True
    current: Counts | None = None
    guaranteed: int = 0
    attained: float = 0.0
    waiting: float = 0.0
    start_pause: float = 0.0
    resize_pause: float = 0.0
    resize_delay: float = 0.0
    pause_left: float = 0.0
    unmeasured: frozenset[int] = frozenset()
    name: str = ""
    application: str = ""
    age: float = 0.0
    restarts: int = 0
    requested: int = 0
    scale_limit: int | None = None
    progress: float = 0.0
    held_seconds: tuple[float, ...] = ()
    step_work: float = 0.0
    deadline: float = math.inf
    unchanged: float = math.inf
    steps_left: float = math.inf
    settling: bool = False
    probes: tuple[int, ...] | None = None
    log_std: Doubt | None = None
    tenant: str = ""

    @property
    def label(self) -> str:
        """How reasons name it."""
        return self.name or self.id

    @property
    def pinned(self) -> bool:
        """Whether it has devices and must keep exactly those."""
        return self.current is not None and not self.elastic


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The cluster and its active jobs at one moment.

    Args:
        now: seconds.
        types: names of the device types.
        capacity: usable devices of each type, those of running jobs included.
        nodes: the same, node by node.
        jobs: in order of submission.
        quotas: by tenant, how many devices of all types its jobs may have together; a tenant that
            is absent may have any number.
    """

    now: float
    types: tuple[str, ...]
    capacity: Counts
    nodes: tuple[Counts, ...]
    jobs: tuple[JobView, ...]
    quotas: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Option:
    """One configuration as a policy weighed it for a job.

    Args:
        counts: devices of each type.
        rate: expected goodput, reference samples a second.
        seconds: expected time to the job's end; inf where its work is not known.
        utility: what the policy maximised; comparable within one decision of one policy only.
        why: of an alternative: why it was not chosen, in words; empty for what was chosen.
        price: of its devices, in utility: what others would give for them; None where the policy
            has no prices.
        pause: seconds that the job would lose by changing to it; None where that is not told.
    """

    counts: Counts
    rate: float
    seconds: float
    utility: float
    why: str = ""
    price: float | None = None
    pause: float | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job got what it got.

    Args:
        text: in words, one or two sentences.
        chosen: what it got; None for nothing.
        alternatives: the best of the others, best first.
        probed: types (indices) of which it got one device only to measure it there.
    """

    text: str
    chosen: Option | None = None
    alternatives: tuple[Option, ...] = ()
    probed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """Which job has what from now on.

    Args:
        chosen: by job id; a job that is absent has nothing.
        reasons: by job id.
        value: the sum that was maximised, where the policy maximises one.
        bound: no decision has a larger one.
        weighed: by job id the configurations, (C, G), and utilities, (C,), of which the sum is;
            empty for a policy that weighs none.
    """

    chosen: Mapping[str, Counts]
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    value: float | None = None
    bound: float | None = None
    weighed: Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = field(
        default_factory=dict
    )
