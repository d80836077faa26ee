"""An engine in virtual time, for tests of the controller: it does what engines do, at once or not.

It checks what it is told: a device that two jobs use at a time is an error here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from staves.engines._base import Ended, Engine, Launch, Status
from staves.hardware import Cluster, Device


@dataclass
class Attempt:
    """One attempt; `elastic`, `samples` and `speeds` are the truth about its job."""

    launch: Launch
    born: float
    elastic: bool
    samples: float
    speeds: dict[str, float]
    done: float = 0.0
    request: int = 0
    wanted: tuple[Device, ...] = ()
    devices: tuple[Device, ...] = ()
    switch_at: float | None = None
    stop_at: float | None = None
    save: bool = False
    lost: bool = False
    ended: Ended | None = None
    looked: float = 0.0
    generation: int = 1
    fitted: set[str] = field(default_factory=set)
    since: float = 0.0

    def rate(self) -> float:
        return sum(self.speeds.get(d.type.name, 1.0) for d in self.devices)


class PretendEngine(Engine):
    """Runs attempts in the time of `now`."""

    name: str = "pretend"
    START, SWITCH, STOP, FIT = 1.0, 0.5, 0.5, 2.0

    def __init__(self, cluster: Cluster) -> None:
        self.now = 1000.0
        self._cluster = cluster
        self.truth: dict[str, dict[str, Any]] = {}
        self.attempts: dict[tuple[str, int], Attempt] = {}
        self.kept: dict[str, float] = {}  # samples in the checkpoint of a job
        self.launches: list[tuple[str, int]] = []
        self.broken: set[str] = set()  # devices on which no worker lives long

    def cluster(self) -> Cluster:
        return self._cluster

    def vanish(self, node: str) -> None:
        nodes = tuple(n for n in self._cluster.nodes if n.name != node)
        self._cluster = replace(self._cluster, nodes=nodes)

    def put_back(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def launch(self, launch: Launch) -> None:
        key = launch.job, launch.attempt
        if key in self.attempts:
            return
        self.launches.append(key)
        truth = self.truth.get(launch.job, {})
        self.attempts[key] = Attempt(
            launch,
            born=self.now,
            elastic=truth.get("elastic", True),
            samples=truth.get("samples", 1000.0),
            speeds=truth.get("speeds", {}),
            done=self.kept.get(launch.job, 0.0),
            wanted=launch.devices,
            devices=launch.devices,
            looked=self.now,
            since=self.now,
        )
        self._check()

    def resize(self, job: str, attempt: int, devices: Sequence[Device], request: int) -> None:
        one = self.attempts[job, attempt]
        assert one.elastic, "a job that is not elastic was resized"
        if request > one.request:
            one.request, one.wanted = request, tuple(devices)
            one.switch_at = self.now + self.SWITCH
            self._check()

    def stop(self, job: str, attempt: int, *, save: bool, grace: float) -> None:
        one = self.attempts[job, attempt]
        if one.stop_at is None:
            one.stop_at, one.save = self.now + self.STOP, save

    def status(self, job: str, attempt: int) -> Status:
        one = self.attempts.get((job, attempt))
        if one is None:
            return Status("absent")
        self._advance(one)
        if one.lost:
            return Status("lost", elastic=self._hello(one))
        if one.ended is not None:
            return Status("ended", elastic=self._hello(one), ended=one.ended)
        if self.now - one.born < self.START:
            return Status("starting")
        names = tuple(d.name for d in one.devices)
        progress = {}
        knowledge = None
        if self._hello(one):
            progress = {
                "step": int(one.done),
                "samples": int(one.done),
                "total_samples": one.samples,
                "batch": 32,
                "step_seconds": 32 / one.rate(),
            }
            if one.fitted:
                knowledge = {
                    "lines": {
                        f"type {kind}": [[0.0, 0.5 / speed, 0.0], [0.0, 0.5 / speed, 0.0]]
                        for kind in one.fitted
                        for speed in [one.speeds.get(kind, 1.0)]
                    },
                    "ready": [1.0],
                    "seconds": [0.0],
                    "world_size": len(one.devices),
                }
        return Status(
            "running",
            elastic=self._hello(one),
            request=one.request,
            wanted=tuple(d.name for d in one.wanted),
            devices=names,
            unusable=tuple(d.name for d in one.wanted if d.name in self.broken)
            if one.switch_at is None
            else (),
            generation=one.generation,
            progress=progress,
            knowledge=knowledge,
            spans=(
                {
                    "devices": list(names),
                    "since": one.since,
                    "until": None,
                    "local_batches": progress and [32, *[0] * (len(names) - 1)],
                    "step_seconds": progress.get("step_seconds"),
                },
            ),
        )

    def logs(self, job: str, attempt: int) -> dict[str, Path]:
        return {}

    # -- what happens

    def kill(self, job: str) -> None:
        """Its supervisor dies."""
        attempt = max(a for j, a in self.attempts if j == job)
        one = self.attempts[job, attempt]
        self._advance(one)
        if one.ended is None:
            one.lost, one.devices, one.wanted = True, (), ()

    def refuse(self, job: str) -> None:
        """The cluster does not let it begin."""
        attempt = max(a for j, a in self.attempts if j == job)
        self._end(self.attempts[job, attempt], Ended("unplaced", "b: no agent: it is down"))

    def alive(self) -> list[Attempt]:
        return [a for a in self.attempts.values() if a.ended is None and not a.lost]

    def _hello(self, one: Attempt) -> bool | None:
        return True if one.elastic and one.looked - one.born >= self.START else None

    def _advance(self, one: Attempt) -> None:
        if one.ended is not None or one.lost:
            return
        while one.looked < self.now:
            step = min(0.1, self.now - one.looked)
            one.looked += step
            if one.looked - one.born < self.START:
                continue
            one.done += step * one.rate()
            if one.switch_at is not None and one.looked >= one.switch_at:
                usable = tuple(d for d in one.wanted if d.name not in self.broken)
                one.devices, one.switch_at = usable, None
                one.generation, one.since = one.generation + 1, one.looked
            if one.elastic and len(one.devices) > 1 and one.looked - one.since >= self.FIT:
                one.fitted |= {d.type.name for d in one.devices}
            if one.done >= one.samples:
                self._end(one, Ended("finished", figures={"samples": one.samples}))
            elif one.stop_at is not None and one.looked >= one.stop_at:
                if one.save and one.elastic:
                    self.kept[one.launch.job] = one.done
                    self._end(one, Ended("saved"))
                else:
                    self._end(one, Ended("stopped"))
            if one.ended is not None:
                return

    def _end(self, one: Attempt, ended: Ended) -> None:
        one.ended, one.devices, one.wanted = ended, (), ()

    def _check(self) -> None:
        users: dict[str, str] = {}
        for one in self.attempts.values():
            self._advance(one)
        for one in self.alive():
            for device in {*one.devices, *one.wanted}:
                other = users.setdefault(device.name, one.launch.job)
                assert other == one.launch.job, f"{device.name} is used by {other} and {one.launch}"
