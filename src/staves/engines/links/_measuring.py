"""Small jobs of two ranks, round by round, and what they found."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import staves
from staves.engines._base import Engine, Launch
from staves.engines.links._rounds import rounds_of
from staves.errors import InputError, StavesError
from staves.hardware import Device, Link
from staves.steptime import fit_link

PATIENCE = 300.0
"""Seconds that one round may take: agents may have to wait for the cluster, and torch to load."""

_LOOK = 0.05  # seconds between two looks
_ENDS_WITHIN = 60.0  # seconds for what was stopped
_PROGRAM = "staves.training.link_probe"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What came of one pair of nodes.

    Args:
        nodes: the two.
        job: the id of the job that has measured it, whose logs tell of a problem.
        link: between them; None where it could not be measured.
        samples: (bytes, seconds) of the all-reduces behind it.
        problem: why it could not be, in words; empty where it could.
        at: when, Unix seconds.
    """

    nodes: tuple[str, str]
    job: str
    link: Link | None
    samples: tuple[tuple[int, float], ...] = ()
    problem: str = ""
    at: float = 0.0


def measure_links(
    engine: Engine,
    devices: Mapping[str, Device],
    *,
    folder: Path,
    patience: float = PATIENCE,
    told: Callable[[Measurement], None] = lambda _: None,
    waits: Callable[[tuple[str, str], str], None] = lambda nodes, reason: None,
) -> list[Measurement]:
    """Measure the link between every pair of nodes, and return what came of each.

    Disjoint pairs are measured side by side: `rounds_of`. A job that fails is told of, and the
    others go on. Nothing of them is left running.

    Args:
        engine: starts the jobs; it must give nobody else these devices meanwhile.
        devices: one of each node, by the node's name.
        folder: where results are written; the same on all nodes, and there.
        patience: seconds that one round may take.
        told: hears of each pair as soon as it is measured.
        waits: hears of a pair whose ranks cannot start yet, and why, whenever that changes.
    """
    found: list[Measurement] = []
    stamp = f"links-{time.time_ns():x}"
    for number, pairs in enumerate(rounds_of(list(devices))):
        jobs = [
            _Job(engine, f"{stamp}-{number}-{place}", [devices[name] for name in pair], folder)
            for place, pair in enumerate(pairs)
        ]
        try:
            for job in jobs:
                job.start()
            for measurement in _outcomes(jobs, patience, waits):
                told(measurement)
                found.append(measurement)
        finally:
            _end(jobs)
    return found


class _Job:
    """One pair's job."""

    def __init__(self, engine: Engine, name: str, devices: Sequence[Device], folder: Path) -> None:
        self._engine, self._name, self._devices = engine, name, tuple(devices)
        self._folder, self._result = folder, folder / f"{name}.json"
        self.nodes = devices[0].node, devices[1].node
        self._problem = self._waits = ""

    def start(self) -> None:
        """Launch it."""
        profiles = [device.type.profile for device in self._devices]
        batch = sum(max(1, profile.min_batch) if profile else 1 for profile in profiles)
        # Not by its path: Python would look for modules beside it before its own.
        words = [sys.executable, "-P", "-m", _PROGRAM]
        words += [f"--result={self._result}", f"--batch={batch}"]
        launch = Launch(
            self._name,
            1,
            shlex.join(words),
            self._devices,
            workdir=self._folder,
            environ=_environ(),
            minimum=2,
        )
        try:
            self._engine.launch(launch)
        except StavesError as error:
            self._problem = error.message

    def look(self) -> Measurement | None:
        """Return what came of it; None as long as that is not known."""
        if self._problem:
            return self._without(self._problem)
        status = self._engine.status(self._name, 1)
        if status.ended is not None and status.ended.end == "finished":
            return self._read()
        if status.ended is not None:
            return self._without(status.ended.reason or status.ended.end)
        if status.phase == "lost":
            return self._without("its supervisor has died")
        return None

    def late(self) -> Measurement:
        """Return that it took too long."""
        pending = self._engine.status(self._name, 1).pending
        return self._without(pending or "it took too long")

    def waits(self) -> str:
        """Return why it has not started, where that is news; empty where it is not."""
        before, self._waits = self._waits, self._engine.status(self._name, 1).pending
        return self._waits if self._waits != before else ""

    def end(self) -> None:
        """Stop it if it runs."""
        if self._runs():
            self._engine.stop(self._name, 1, save=False, grace=0.0)

    def gone(self) -> bool:
        """Say whether nothing of it runs; what it has written is taken away."""
        if self._runs():
            return False
        self._result.unlink(missing_ok=True)
        return True

    def _runs(self) -> bool:
        return self._engine.status(self._name, 1).phase not in ("absent", "ended", "lost")

    def _read(self) -> Measurement:
        try:
            document = json.loads(self._result.read_bytes())
            samples = tuple((int(size), float(seconds)) for size, seconds in document)
            sizes, seconds = zip(*samples, strict=True)
            return Measurement(
                self.nodes, self._name, fit_link(sizes, seconds), samples, "", time.time()
            )
        except (OSError, ValueError, TypeError, InputError) as error:
            hint = f"is {self._folder} the same folder on both nodes?"
            return self._without(f"its result is not to be had ({hint}): {error}")

    def _without(self, problem: str) -> Measurement:
        return Measurement(self.nodes, self._name, None, (), problem, time.time())


def _outcomes(
    jobs: Sequence[_Job], patience: float, waits: Callable[[tuple[str, str], str], None]
) -> Iterator[Measurement]:
    """Yield what comes of each job, as it comes."""
    open_jobs, until = list(jobs), time.monotonic() + patience
    while open_jobs:
        late = time.monotonic() > until
        for job in list(open_jobs):
            found = job.look() or (job.late() if late else None)
            if found is None and (reason := job.waits()):
                waits(job.nodes, reason)
            if found is not None:
                open_jobs.remove(job)
                yield found
        if open_jobs:
            time.sleep(_LOOK)


def _end(jobs: Sequence[_Job]) -> None:
    """Leave nothing running, whatever has happened."""
    for job in jobs:
        job.end()
    left, until = list(jobs), time.monotonic() + _ENDS_WITHIN
    while (left := [job for job in left if not job.gone()]) and time.monotonic() < until:
        time.sleep(_LOOK)


def _environ() -> dict[str, str]:
    """Return this process's environment, in which `python` finds staves."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("STAVES_")}
    paths = [str(Path(staves.__file__).parents[1]), environ.get("PYTHONPATH", "")]
    return environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
