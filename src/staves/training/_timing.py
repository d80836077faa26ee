"""Where the time of a step goes: update, data, forward, backward, each bucket's way on the wire.

A step lasts from the end of one synchronisation to the end of the next, so its forward part holds
the update of the step before and the wait for the loader (Cannikin's a_i: data, forward, update).

Never a device synchronisation: on CUDA the marks are events, and a step is read when the device has
passed all of them, some steps later if need be; on the CPU they are clock readings.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch


class Clock(Protocol):
    """Marks in time and the seconds between them."""

    def now(self) -> object:
        """Make a mark here."""

    def readings(self, marks: Sequence[object]) -> list[float] | None:
        """Return the seconds from the first mark to each; None where one is not known yet."""


class HostClock:
    """The clock of a device that computes in step with the host: the CPU."""

    def now(self) -> float:
        """Return the host's clock, in seconds."""
        return time.perf_counter()

    def readings(self, marks: Sequence[object]) -> list[float]:
        """Return the seconds from the first reading of the clock to each."""
        first: Any = marks[0]
        return [mark - first for mark in marks]


class CudaClock:
    """Events on the current CUDA stream: the host never waits for the device."""

    def now(self) -> torch.cuda.Event:
        """Record an event on the current stream."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def readings(self, marks: Sequence[object]) -> list[float] | None:
        """Return the device seconds from the first event to each; None while any is to come."""
        events: Sequence[Any] = marks
        if not all(event.query() for event in events):
            return None
        return [float(events[0].elapsed_time(event)) / 1e3 for event in events]


_UNREAD = 64  # steps kept whose marks the device has not passed yet


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One rank's measurements of one step.

    `forward` runs from the step's start to the start of its last backward pass (under accumulation
    that is all but this pass); `data` of it went by waiting for the loader's first micro-batch,
    `update` of it in the optimizers, after the step before. `backward` runs from there to the last
    bucket's readiness; `ready[j]` is when bucket j was ready, counted from the start of the
    backward pass; `wire[j]` is how long this rank saw bucket j under way, and `sizes[j]` its bytes,
    where they are known. `delay` is how long the
    host kept the step from running (`_contention.py`). Seconds.
    """

    step: int
    plan: int
    samples: float
    forward: float
    backward: float
    ready: tuple[float, ...]
    wire: tuple[float, ...]
    step_seconds: float
    data: float = 0.0
    update: float = 0.0
    micro_steps: int = 1
    delay: float = 0.0
    sizes: tuple[int, ...] = ()

    @property
    def compute(self) -> float:
        """Seconds in which the device was at work, or held up by its own host."""
        return self.forward + self.backward


@dataclass(slots=True)
class _Marks:
    """The marks of one step, and what is told of it when it is over."""

    start: object = None
    loading: object = None
    loaded: object = None
    backward: object = None
    end: object = None
    ready: list[object] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    done: dict[int, object] = field(default_factory=dict)
    updates: list[tuple[object, object]] = field(default_factory=list)
    delayed: float = 0.0
    step: int = 0
    plan: int = 0
    samples: int = 0
    micro_steps: int = 1


class StepTimer:
    """Collect the marks of one step after the other.

    Args:
        clock: of the device.
        delayed: seconds, since whenever, for which the host has kept this rank from running.
    """

    def __init__(self, clock: Clock, delayed: Callable[[], float] = lambda: 0.0) -> None:
        self.clock = clock
        self._delayed = delayed
        self._delayed_before = 0.0
        self._marks = _Marks()
        self._ended: _Marks | None = None
        self._unread: deque[_Marks] = deque(maxlen=_UNREAD)
        self._updating: object = None
        self._last_end: object = None

    def begin(self) -> None:
        """The first batch after a pause was asked for: the step starts here."""
        self._marks = _Marks(start=self.clock.now())
        self._delayed_before = self._delayed()

    @property
    def started(self) -> bool:
        """Whether a step is being timed."""
        return self._marks.start is not None

    @property
    def last_end(self) -> float | None:
        """When the last step ended, by the host's clock; None where that is not known."""
        return self._last_end if isinstance(self._last_end, float) else None

    def pause(self) -> None:
        """What follows (an evaluation, a change of plan) belongs to no step."""
        self._marks, self._ended = _Marks(), None

    def loading(self) -> None:
        """The loader is asked for the step's first batch."""
        self._marks.loading = self.clock.now()

    def loaded(self) -> None:
        """That batch is here."""
        self._marks.loaded = self.clock.now()

    def updating(self) -> None:
        """An optimizer is about to update parameters."""
        self._updating = self.clock.now()

    def updated(self) -> None:
        """It has; the step that follows carries the time."""
        if self._updating is not None:
            self._marks.updates.append((self._updating, self.clock.now()))
        self._updating = None

    def backward(self) -> None:
        """The last backward pass of the step starts here."""
        self._marks.backward = self.clock.now()
        self._marks.ready, self._marks.sizes, self._marks.done = [], [], {}

    def bucket_ready(self, size: int) -> int:
        """A bucket of `size` bytes is ready; return its place in the order."""
        self._marks.ready.append(self.clock.now())
        self._marks.sizes.append(size)
        return len(self._marks.ready) - 1

    def bucket_done(self, place: int) -> None:
        """The bucket has been reduced. Called from the collective's own thread."""
        self._marks.done[place] = self.clock.now()

    def end(self) -> None:
        """All buckets are reduced: the step ends here, and the next one starts."""
        ended, delayed = self._marks, self._delayed()
        ended.end = self._last_end = self.clock.now()
        ended.delayed = delayed - self._delayed_before
        self._delayed_before = delayed
        self._marks = _Marks(start=ended.end)
        self._ended = ended if ended.start is not None and ended.backward is not None else None

    def note(
        self, *, step: int, plan: int, samples: int, micro_steps: int = 1, whole: bool = True
    ) -> None:
        """Say which step has just ended. One that is not `whole` (the rest of an epoch) has no
        record."""
        if self._ended is not None:
            ended, self._ended = self._ended, None
            ended.step, ended.plan, ended.samples = step, plan, samples
            ended.micro_steps = micro_steps
            if whole:
                self._unread.append(ended)

    def records(self) -> Iterator[StepRecord]:
        """Yield the steps noted, each once, oldest first, as far as they can be read by now."""
        while self._unread:
            record = self._record(self._unread[0])
            if record is None:
                return
            self._unread.popleft()
            yield record

    def _record(self, marks: _Marks) -> StepRecord | None:
        known = marks.loading is not None and marks.loaded is not None
        loader = (marks.loading, marks.loaded) if known else (marks.start, marks.start)
        buckets = len(marks.ready)
        done = [marks.done.get(place, marks.end) for place in range(buckets)]
        updates = [mark for pair in marks.updates for mark in pair]
        readings = self.clock.readings(
            [marks.start, marks.backward, marks.end, *loader, *marks.ready, *done, *updates]
        )
        if readings is None:
            return None
        _, backward, end, loading, loaded = readings[:5]
        ready, done_at = readings[5 : 5 + buckets], readings[5 + buckets : 5 + 2 * buckets]
        updates_at = readings[5 + 2 * buckets :]
        wire, free = [], -math.inf
        for began, ended in zip(ready, done_at, strict=True):
            # On the wire from when it was ready and the one before it was through.
            wire.append(max(0.0, ended - max(began, free)))
            free = ended
        return StepRecord(
            step=marks.step,
            plan=marks.plan,
            samples=marks.samples,
            forward=backward,
            backward=(ready[-1] if ready else end) - backward,
            ready=tuple(mark - backward for mark in ready),
            wire=tuple(wire),
            step_seconds=end,
            data=loaded - loading,
            update=sum(updates_at[1::2]) - sum(updates_at[::2]),
            micro_steps=marks.micro_steps,
            delay=marks.delayed,
            sizes=tuple(marks.sizes),
        )
