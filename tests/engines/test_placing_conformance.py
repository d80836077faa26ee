"""What is asked of every engine, the simulated one as well."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from staves.engines._base import Engine, Launch
from staves.engines.local import LocalEngine
from staves.hardware import Device, parse_cluster
from staves.simulation import Overheads, SimulatedEngine, TrainingTruth
from staves.testing import PlacingConformance, Training
from staves.testing._engine_job import Job
from tests.engines.agents.several import EMULATED, engine


class Simulated:
    """A job on simulated time."""

    def __init__(self) -> None:
        self._now = 100.0
        truths = {"job-1": TrainingTruth(batch=12, samples=1200, epochs=100)}
        cluster = parse_cluster(EMULATED)
        self.engine: Engine = SimulatedEngine(cluster, truths, Overheads(), lambda: self._now)

    def launch(self, attempt: int, devices: Sequence[Device]) -> None:
        self.engine.launch(Launch("job-1", attempt, "", tuple(devices), Path(), {}))

    def go_on(self) -> None:
        self._now += 0.01

    def close(self) -> None:
        pass


class Real:
    """A job that trains with torch, a step each time that it is let."""

    def __init__(self, job: Job) -> None:
        self._job, self.engine = job, job.engine

    def launch(self, attempt: int, devices: Sequence[Device]) -> None:
        self._job.attempt = attempt
        self._job.train(devices, steps=self._job.committed() + 1)

    def go_on(self) -> None:
        self._job.allow(max(self._job.allowed, self._job.committed() + 1))
        time.sleep(0.2)

    def close(self) -> None:
        self._job.abandon()


class TestSimulatedConformance(PlacingConformance):
    def make(self, folder: Path) -> Training:
        return Simulated()


class TestLocalPlacingConformance(PlacingConformance):
    def make(self, folder: Path) -> Training:
        cluster = parse_cluster(EMULATED)
        return Real(Job(lambda: LocalEngine(folder / "home", cluster), folder / "work"))


class TestAgentsPlacingConformance(PlacingConformance):
    def make(self, folder: Path) -> Training:
        return Real(Job(lambda: engine(folder / "home", EMULATED), folder / "work"))
