"""Where the time of a step goes: forward, backward, and each bucket's readiness and wire time.

A step lasts from the end of one synchronisation to the end of the next, so its forward part holds
the optimizer update and the data loading too (cannikin.md's a_i: data, forward and update).

Never a device synchronisation in the hook: on CUDA the marks are events, read when the next step
has begun; on the CPU they are clock readings.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import torch


class Clock(Protocol):
    """Marks in time and the seconds between two of them."""

    def now(self) -> object:
        """Make a mark here."""

    def seconds(self, first: object, second: object) -> float | None:
        """Return the seconds from `first` to `second`, or None where they are not known yet."""


class HostClock:
    """The clock of a device that computes in step with the host: the CPU."""

    def now(self) -> float:
        """Return the host's clock, in seconds."""
        return time.perf_counter()

    def seconds(self, first: object, second: object) -> float | None:
        """Return the seconds between two readings."""
        assert isinstance(first, float)
        assert isinstance(second, float)
        return second - first


class CudaClock:
    """Events on the current CUDA stream: the host never waits for the device."""

    def now(self) -> torch.cuda.Event:
        """Record an event on the current stream."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self, first: object, second: object) -> float | None:
        """Return the device seconds between two events; None while either is still to come."""
        assert isinstance(first, torch.cuda.Event)
        assert isinstance(second, torch.cuda.Event)
        if not (first.query() and second.query()):  # type: ignore[no-untyped-call]
            return None
        return float(first.elapsed_time(second)) / 1e3


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One rank's measurements of one step.

    `forward` runs from the step's start to the start of its last backward pass, `backward` from
    there to the last bucket's readiness; `ready[j]` is when bucket j was ready, counted from the
    start of the backward pass; `wire[j]` is how long this rank saw bucket j under way. Seconds.
    Under accumulation all micro-steps but the last backward pass count as forward.
    """

    step: int
    plan: int
    samples: float
    forward: float
    backward: float
    ready: tuple[float, ...]
    wire: tuple[float, ...]
    step_seconds: float
    micro_steps: int = 1


class StepTimer:
    """Collect the marks of one step after the other."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._start: object = None
        self._backward: object = None
        self._end: object = None
        self._ready: list[object] = []
        self._done: dict[int, object] = {}

    def begin(self) -> None:
        """The first batch after a pause was asked for: the step starts here."""
        self._start = self.clock.now()
        self._ready, self._done = [], {}

    @property
    def started(self) -> bool:
        """Whether a step is being timed."""
        return self._start is not None

    @property
    def last_end(self) -> float | None:
        """When the last step ended, by the host's clock; None where that is not known."""
        return self._end if isinstance(self._end, float) else None

    def pause(self) -> None:
        """What follows (an evaluation, a change of plan) belongs to no step."""
        self._start = None

    def backward(self) -> None:
        """The last backward pass of the step starts here."""
        self._backward = self.clock.now()
        self._ready, self._done = [], {}

    def bucket_ready(self) -> int:
        """A bucket is ready; return its place in the order."""
        self._ready.append(self.clock.now())
        return len(self._ready) - 1

    def bucket_done(self, place: int) -> None:
        """The bucket has been reduced. Called from the collective's own thread."""
        self._done[place] = self.clock.now()

    def end(self) -> None:
        """All buckets are reduced: the step ends here, and the next one starts."""
        self._end = self.clock.now()

    def read(
        self, *, step: int, plan: int, samples: int, micro_steps: int = 1
    ) -> StepRecord | None:
        """Return the step that ended, and start the next; None where it cannot be known."""
        start, end = self._start, self._end
        self._start = end
        if start is None or end is None or self._backward is None:
            return None
        between = self.clock.seconds
        ready = [between(self._backward, mark) for mark in self._ready]
        wire: list[float | None] = []
        free: object = None
        for place, mark in enumerate(self._ready):
            done = self._done.get(place, end)
            own = between(mark, done)
            queued = own if free is None else between(free, done)
            # On the wire from when it was ready and the one before it was through.
            wire.append(None if own is None or queued is None else max(0.0, min(own, queued)))
            free = done
        forward, total = between(start, self._backward), between(start, end)
        last = ready[-1] if ready else between(self._backward, end)
        parts = [forward, total, last, *ready, *wire]
        if any(part is None for part in parts):
            return None
        return StepRecord(
            step=step,
            plan=plan,
            samples=samples,
            forward=forward or 0.0,
            backward=last or 0.0,
            ready=tuple(r or 0.0 for r in ready),
            wire=tuple(w or 0.0 for w in wire),
            step_seconds=total or 0.0,
            micro_steps=micro_steps,
        )
