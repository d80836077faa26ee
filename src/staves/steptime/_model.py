"""The step-time model: what a step costs on every device, for any local batches.

Source of the model: Nie, Maghakian, Liu, "Cannikin: Optimal Adaptive Distributed DNN Training over
Heterogeneous Clusters" (Middleware '24), section on the performance model, with one line for every
gradient bucket instead of two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from staves.documents import LONGEST_SECONDS
from staves.errors import InputError, quoted
from staves.steptime._lines import Lines

Bottleneck = Literal["compute", "communication"]

LARGEST_BATCH = 2**53  # whole numbers are exact in floats up to here

_TIE = 1e-12  # two lines this near (relative) are equal: their difference is rounding


@dataclass(frozen=True)
class Line:
    """Seconds of one phase on one device: max(floor, fixed + per_sample * local batch).

    Args:
        fixed: seconds that every step costs.
        per_sample: seconds a sample.
        floor: seconds below which the phase never falls (launch-bound small batches).

    Raises:
        InputError: a number is negative, not finite or above LONGEST_SECONDS.
    """

    fixed: float
    per_sample: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (
            ("fixed", self.fixed),
            ("per_sample", self.per_sample),
            ("floor", self.floor),
        ):
            _require_duration(name, value)

    def seconds(self, local_batch: float) -> float:
        """Return the seconds of the phase at `local_batch` samples."""
        return max(self.floor, self.fixed + self.per_sample * local_batch)


@dataclass(frozen=True)
class Device:
    """One device: its two phases and how many samples it may hold.

    Args:
        name: unique in a model.
        type: the device type, such as "a100".
        forward: everything before the backward pass, and the update: data, forward, optimizer.
        backward: the backward pass.
        min_batch: the fewest samples a step it must hold.
        max_batch: the most samples a step it can hold; None: no bound.
        idle: seconds a step costs it when it holds no sample, instead of both lines at 0.

    Raises:
        InputError: a bound is negative or above 2^53, min_batch > max_batch, or `idle` is negative,
            not finite or longer than LONGEST_SECONDS.
    """

    name: str
    type: str
    forward: Line
    backward: Line
    min_batch: int = 0
    max_batch: int | None = None
    idle: float | None = None

    def __post_init__(self) -> None:
        if self.min_batch < 0:
            raise InputError(
                f"min_batch must not be negative, but is {self.min_batch}", hint="raise it"
            )
        if self.max_batch is not None and self.max_batch < self.min_batch:
            raise InputError(
                f"min_batch {self.min_batch} is above max_batch {self.max_batch}",
                hint="lower one or raise the other",
            )
        if max(self.min_batch, self.max_batch or 0) > LARGEST_BATCH:
            raise InputError("min_batch and max_batch must be at most 2^53", hint="lower them")
        if self.idle is not None:
            _require_duration("idle", self.idle)


def ring_share(devices: int | NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how often its bytes a device sends in a ring all-reduce: 2 (n - 1) / n; 0 alone."""
    n = np.asarray(devices, dtype=np.float64)
    share: NDArray[np.float64] = np.maximum(2 * (n - 1) / np.maximum(n, 1), 0.0)
    return share


@dataclass(frozen=True)
class Communication:
    """The gradient buckets, in the order in which they are reduced.

    Args:
        ready: for every bucket, the share of the backward pass after which it is ready; ascends in
            [0, 1] and ends in 1.
        seconds: for every bucket, its seconds on the wire.

    Raises:
        InputError: no bucket, unlike lengths, `ready` unsorted or not ending in 1, or `seconds`
            negative, not finite or above LONGEST_SECONDS.
    """

    ready: tuple[float, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.ready:
            raise InputError("ready is empty", hint="one bucket at least: ready [1], seconds [0]")
        if len(self.ready) != len(self.seconds):
            raise InputError(
                f"ready has {len(self.ready)} buckets, but seconds has {len(self.seconds)}",
                hint="give each bucket one of both",
            )
        for j, share in enumerate(self.ready):
            if not 0 <= share <= 1:
                raise InputError(
                    f"ready[{j}] must be from 0 to 1, but is {share}",
                    hint="it is a share of the backward pass",
                )
            if share < self.ready[max(j - 1, 0)]:
                raise InputError(
                    f"ready is not sorted: ready[{j}] is below the one before it",
                    hint="buckets stand in the order of reduction",
                )
        if self.ready[-1] != 1:
            raise InputError(
                f"ready ends in {self.ready[-1]}, not in 1",
                hint="the last bucket is ready when the backward pass is done",
            )
        for j, value in enumerate(self.seconds):
            _require_duration(f"seconds[{j}]", value)


@dataclass(frozen=True)
class StepTimeModel:
    """Step time of a job on `n` unlike devices that reduce their gradients in `K` buckets.

    t_i(b) = max over buckets j of [a_i(b) + ready_j P_i(b) + R_j], with a_i the forward line, P_i
    the backward line and R_j the seconds on the wire of bucket j and all later ones. A step takes
    T = max_i t_i(b_i): bucket j starts when every device has it and the wire is free.

    Raises:
        InputError: no device, or two of one name.
    """

    devices: tuple[Device, ...]
    communication: Communication

    def __post_init__(self) -> None:
        if not self.devices:
            raise InputError("devices is empty", hint="give one device at least")
        twice = [n for n, times in Counter(d.name for d in self.devices).items() if times > 1]
        if twice:
            raise InputError(
                f"two devices are named {quoted(twice[0])}", hint="give each its own name"
            )

    @cached_property
    def lines(self) -> Lines:
        """The devices as arrays; built once."""
        return Lines.of(self.devices, self.communication)

    def device_seconds(self, local_batches: ArrayLike) -> NDArray[np.float64]:
        """Return t_i(b_i) in seconds, shape (..., n), for `local_batches` of shape (..., n)."""
        return self.lines.seconds(self._checked(local_batches))

    def step_seconds(self, local_batches: ArrayLike, left_out: Sequence[int] = ()) -> float:
        """Return T in seconds for `local_batches` of shape (n,).

        Args:
            local_batches: samples of every device.
            left_out: indices of devices that do not take part at all.
        """
        seconds = self.device_seconds(local_batches)
        return float(np.delete(seconds, list(left_out)).max() if left_out else seconds.max())

    def bottlenecks(self, local_batches: ArrayLike) -> tuple[Bottleneck, ...]:
        """Say what holds each device: compute if its last bucket's line attains t_i (also in ties).

        For `local_batches` of shape (n,).
        """
        batches = self._checked(local_batches)
        last = self.lines.last_bucket_seconds(batches)
        compute = last >= self.lines.seconds(batches) * (1 - _TIE)
        return tuple("compute" if c else "communication" for c in compute)

    def idle_share(
        self, local_batches: ArrayLike, left_out: Sequence[int] = ()
    ) -> NDArray[np.float64]:
        """Return 1 - t_i / T, shape (n,): the share of a step in which each device only waits.

        1 for devices left out.
        """
        seconds = self.device_seconds(local_batches)
        step = self.step_seconds(local_batches, left_out)
        seconds[list(left_out)] = 0.0  # they may take any time, and wait all of it
        share = 1 - seconds / step if step > 0 else np.zeros_like(seconds)
        share[list(left_out)] = 1.0
        return share

    def _checked(self, local_batches: ArrayLike) -> NDArray[np.float64]:
        batches = np.asarray(local_batches, dtype=np.float64)
        if batches.ndim == 0 or batches.shape[-1] != len(self.devices):
            raise InputError(
                f"local_batches has shape {batches.shape} for {len(self.devices)} devices",
                hint="one number a device",
            )
        if not np.all(np.isfinite(batches) & (batches >= 0)):
            raise InputError("local_batches holds a negative or non-finite number")
        return batches


def _require_duration(name: str, value: float) -> None:
    if not (value >= 0 and math.isfinite(value)):
        raise InputError(
            f"{name} must be finite and not negative, but is {value}", hint="give it in seconds"
        )
    if value > LONGEST_SECONDS:
        raise InputError(
            f"{name} is {value:g} seconds, and must be at most {LONGEST_SECONDS:g}",
            hint="give it in seconds",
        )
