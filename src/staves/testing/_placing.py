"""What every engine must do with decisions, also one that runs no commands: the simulator."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from staves.engines._base import Engine, Status
from staves.hardware import Device
from staves.testing._engine_job import PATIENCE


class Training(Protocol):
    """One elastic job, `job-1`, that trains for long."""

    engine: Engine

    def launch(self, attempt: int, devices: Sequence[Device]) -> None:
        """Launch an attempt at it."""

    def go_on(self) -> None:
        """Let some time pass, a step or so."""

    def close(self) -> None:
        """Leave nothing running."""


class PlacingConformance(ABC):
    """Inherit this in a test module of an engine, and say how a job of it is made.

    Its cluster must have four devices at least. `EngineConformance` asks for more, of engines that
    run commands.
    """

    @abstractmethod
    def make(self, folder: Path) -> Training:
        """Return a job of an engine that keeps its state in that folder."""

    @pytest.fixture
    def training(self, tmp_path: Path) -> Iterator[Training]:
        """A job that is about to be launched."""
        made = self.make(tmp_path)
        yield made
        made.close()

    def test_it_is_absent_then_runs_where_it_was_told(self, training: Training) -> None:
        devices = training.engine.cluster().devices()[:2]
        assert training.engine.status("job-1", 1).phase == "absent"
        training.launch(1, devices)
        status = _until(training, 1, _trains_on(devices))
        training.launch(1, devices[:1])
        assert training.engine.status("job-1", 1).wanted == status.wanted == _names(devices)
        assert status.elastic is True

    def test_requests_are_taken_in_the_order_of_their_numbers(self, training: Training) -> None:
        first, second, third, fourth = training.engine.cluster().devices()[:4]
        training.launch(1, [first, second])
        _until(training, 1, _trains_on([first, second]))
        training.engine.resize("job-1", 1, [first, second, fourth, third], 2)
        training.engine.resize("job-1", 1, [first], 1)
        status = _until(training, 1, _trains_on([first, second, fourth, third]))
        assert status.request == 2
        training.engine.resize("job-1", 1, [fourth, third], 3)
        status = _until(training, 1, _trains_on([fourth, third]))
        assert (status.request, status.wanted) == (3, _names([fourth, third]))
        numbers = [span["generation"] for span in status.spans]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == status.generation
        for before, span in zip(status.spans, status.spans[1:], strict=False):
            assert before["first_step"] + before["steps"] == span["first_step"]
            assert before["since"] <= before["until"] <= span["since"]

    def test_saved_it_goes_on_from_there_elsewhere(self, training: Training) -> None:
        devices = training.engine.cluster().devices()
        training.launch(1, devices[:2])
        _until(training, 1, _trains_on(devices[:2]))
        training.engine.stop("job-1", 1, save=True, grace=PATIENCE)
        saved = _until(training, 1, lambda status: status.phase == "ended")
        assert saved.ended is not None
        assert saved.ended.end == "saved"
        training.engine.stop("job-1", 1, save=False, grace=0.0)
        assert training.engine.status("job-1", 1) == saved
        training.launch(2, devices[2:4])
        status = _until(training, 2, _trains_on(devices[2:4]))
        assert status.spans[0]["first_step"] == saved.progress["step"]
        training.engine.stop("job-1", 2, save=False, grace=0.0)
        stopped = _until(training, 2, lambda status: status.phase == "ended")
        assert stopped.ended is not None
        assert stopped.ended.end == "stopped"


def _names(devices: Sequence[Device]) -> tuple[str, ...]:
    return tuple(device.name for device in devices)


def _trains_on(devices: Sequence[Device]) -> Callable[[Status], bool]:
    def ready(status: Status) -> bool:
        return set(status.devices) == set(_names(devices)) and bool(
            status.spans and status.spans[-1]["steps"]
        )

    return ready


def _until(training: Training, attempt: int, ready: Callable[[Status], bool]) -> Status:
    end = time.monotonic() + PATIENCE
    while not ready(status := training.engine.status("job-1", attempt)):
        assert time.monotonic() < end, status
        training.go_on()
    return status
