"""Jobs in virtual time: planners and the ranks' measuring on records of a truth that is declared.

No processes, no clock: what the ranks exchange goes through a table in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from staves.steptime import Communication, Device, Line, StepTimeModel, integer_split
from staves.training._environment import WorkerDevice
from staves.training._measuring import Measuring
from staves.training._planner import Plan, Planner
from staves.training._timing import StepRecord


class Table:
    """An exchange of all ranks, one rank after the other, rank 0 last in a gather."""

    def __init__(self) -> None:
        self.flags: set[str] = set()
        self.gathered: list[Any] = []
        self.told: Any = None


class Exchange:
    """One rank's side of it; stands for `training._exchange.Exchange`."""

    def __init__(self, table: Table, rank: int) -> None:
        self.table, self.rank = table, rank

    def raise_flag(self, name: str) -> None:
        self.table.flags.add(name)

    def flagged(self, name: str) -> bool:
        return name in self.table.flags

    def gather(self, value: Any) -> list[Any] | None:
        self.table.gathered.append(value)
        return None if self.rank else list(reversed(self.table.gathered))

    def agree(self, own: Any, decide: Callable[[list[Any]], Any]) -> Any:
        gathered = self.gather(own)
        return self.broadcast(None if gathered is None else decide(gathered))

    def broadcast(self, value: Any) -> Any:
        if self.rank == 0:
            self.table.told = value
        return self.table.told


def truth(
    speeds: Sequence[float], ready: Sequence[float], wire: Sequence[float], fixed: float = 0.004
) -> StepTimeModel:
    """Return a model of devices with these forward seconds a sample, twice that backward."""
    devices = [
        Device(str(i), "x", Line(fixed, speed), Line(1.5 * fixed, 2 * speed))
        for i, speed in enumerate(speeds)
    ]
    return StepTimeModel(tuple(devices), Communication(tuple(ready), tuple(wire)))


class VirtualJob:
    """Ranks that train together in virtual time.

    Args:
        model: the truth.
        batch: the total batch, in samples.
        noise: relative standard deviation of every phase.
        slowed: from a step on, how many times slower a device is: (step, rank) -> factor.
        spoils: the host's delay in a step, seconds: (step, rank) -> delay.
        declared: the devices are emulated.
    """

    def __init__(
        self,
        model: StepTimeModel,
        batch: int,
        *,
        noise: float,
        seed: int = 0,
        slowed: Callable[[int, int], float] = lambda step, rank: 1.0,
        spoils: Callable[[int, int], float] = lambda step, rank: 0.0,
        declared: bool = False,
    ) -> None:
        self.model, self.batch, self.noise = model, batch, noise
        self.slowed, self.spoils = slowed, spoils
        self.random = np.random.default_rng(seed)
        self.step = 0
        ranks = range(len(model.devices))
        devices = [WorkerDevice(f"device-{rank}", "x") for rank in ranks]
        self.planners = [Planner(batch, devices, [None] * len(devices)) for _ in ranks]
        self.table = Table()
        self.exchanges = [Exchange(self.table, rank) for rank in ranks]
        self.measuring = [Measuring(declared=declared) for _ in ranks]
        for rank in ranks:
            self.measuring[rank].begin_generation(
                self.planners[rank],
                rank,
                self.exchanges[rank],  # type: ignore[arg-type]
                0,
            )
        self.plans: list[tuple[int, Plan]] = [(0, self.plan)]
        self.decisions: list[int] = []
        self.alarms: list[tuple[int, int]] = []
        self.step_seconds: list[float] = []

    @property
    def plan(self) -> Plan:
        return self.planners[0].plan

    def train(self, steps: int) -> VirtualJob:
        for _ in range(steps):
            self._boundary()
            self._take_step()
            self.step += 1
        return self

    def truth_at(self, step: int) -> StepTimeModel:
        devices = [
            replace(d, forward=_times(d.forward, factor), backward=_times(d.backward, factor))
            for rank, d in enumerate(self.model.devices)
            for factor in [self.slowed(step, rank)]
        ]
        return replace(self.model, devices=tuple(devices))

    def regret(self) -> float:
        """Return how much longer a step takes than with the best split of the truth by now."""
        now = self.truth_at(self.step)
        best = integer_split(now, self.batch).step_seconds
        return now.step_seconds(self.plan.local_batches) / best - 1

    def _boundary(self) -> None:
        pairs = list(zip(self.measuring, self.planners, strict=True))
        for measuring, _ in pairs:
            since = measuring.drifted_since
            if since is not None and (not self.alarms or self.alarms[-1][0] != since):
                self.alarms.append((since, self.step))
        due = {measuring.decision_due(planner, self.step) for measuring, planner in pairs}
        assert len(due) == 1, "ranks must agree"
        if not due.pop():
            return
        self.decisions.append(self.step)
        self.table.gathered.clear()
        # Rank 0 gathers last and tells first: the others' sides of both are run around it.
        for rank in reversed(range(1, len(pairs))):
            self.table.gathered.append(self.measuring[rank]._measured())
        changed = {
            measuring.decide(planner, _Late(exchange), self.step, None)  # type: ignore[arg-type]
            for (measuring, planner), exchange in zip(pairs, self.exchanges, strict=True)
        }
        assert len(changed) == 1, "ranks must agree"
        if changed.pop():
            self.plans.append((self.step, self.plan))

    def _take_step(self) -> None:
        split, now = self.plan.local_batches, self.truth_at(self.step)
        communication = now.communication
        parts = []
        for rank, device in enumerate(now.devices):
            delay = self.spoils(self.step, rank)
            forward = device.forward.seconds(split[rank]) * self._noise() + delay
            parts.append((forward, device.backward.seconds(split[rank]) * self._noise(), delay))
        free, waits = 0.0, []
        for ready, wire in zip(communication.ready, communication.seconds, strict=True):
            here = [forward + ready * backward for forward, backward, _ in parts]
            started = max(free, *here)
            done = started + wire * self._noise()
            waits.append([done - max(at, free) for at in here])
            free = done
        self.step_seconds.append(free)
        for rank, (forward, backward, delay) in enumerate(parts):
            record = StepRecord(
                step=self.step,
                plan=self.plan.number,
                samples=split[rank],
                forward=forward,
                backward=backward,
                ready=tuple(share * backward for share in communication.ready),
                wire=tuple(seen[rank] for seen in waits),
                step_seconds=free,
                delay=delay,
            )
            if self.measuring[rank].settled(self.step):
                self.measuring[rank].take(record)

    def _noise(self) -> float:
        return float(np.exp(self.noise * self.random.standard_normal()))


class _Late(Exchange):
    """An exchange whose other ranks' values lie on the table already."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange.table, exchange.rank)

    def gather(self, value: Any) -> list[Any] | None:
        return None if self.rank else [value, *reversed(self.table.gathered)]


def _times(line: Line, factor: float) -> Line:
    return Line(line.fixed * factor, line.per_sample * factor, line.floor * factor)
