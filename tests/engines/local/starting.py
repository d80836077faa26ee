"""Start workers of one script side by side, forked or by exec, and hear them to their ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from staves.engines.local._loop import Loop
from staves.engines.local._process import AdoptedProcess, adopt_orphans, end_orphans
from staves.engines.local._starting import Starter
from staves.engines.local._worker import LocalWorker
from staves.hardware import Device, parse_cluster
from tests.training.launch import environment

PATIENCE = 120.0  # seconds, on a busy machine
EMULATED = """
types:
  emu: {emulate: {forward: {fixed: 1ms, per_sample: 0ms}, backward: {fixed: 1ms, per_sample: 0ms}}}
nodes: [{name: box, devices: {emu: 8, local-cpu: 2}}]
"""


def devices(kind: str = "emu", count: int = 1) -> list[Device]:
    found = [d for d in parse_cluster(EMULATED).devices() if d.type.name == kind]
    return found[:count]


@dataclass
class Ending:
    """What a worker left."""

    forked: bool
    status: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""


class Start:
    """A starter in a loop of its own; workers are told apart by their numbers."""

    def __init__(
        self, command: Sequence[str], workdir: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self.environ = {**environment(workdir / "home"), "OMP_NUM_THREADS": "1", **(environ or {})}
        self.loop = Loop()
        self.warnings: list[str] = []
        self.endings: dict[int, Ending] = {}
        self.workers: dict[int, LocalWorker] = {}
        self.starter = Starter(
            command, self.environ, workdir, self.loop, self._started, self.warnings.append
        )

    def worker(
        self, member: int, environ: Mapping[str, str] | None = None, device: Device | None = None
    ) -> None:
        whole = {**self.environ, **(environ or {})}
        self.starter.start(member, device or devices()[0], rank=member, environ=whole)

    def until_started(self, *members: int) -> None:
        self._serve(lambda: all(member in self.endings for member in members))

    def until_ended(self, *members: int) -> list[Ending]:
        self.until_started(*members)
        self._serve(lambda: not self.workers.keys() & set(members))
        return [self.endings[member] for member in members]

    def _serve(self, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not ready():
            assert time.monotonic() < end, (self.endings, self.warnings)
            self.loop.serve(0.5)
            self.starter.tick(time.monotonic())

    def _started(self, worker: LocalWorker) -> None:
        ending = self.endings[worker.member] = Ending(isinstance(worker.process, AdoptedProcess))
        self.workers[worker.member] = worker
        for is_stderr, pipe in worker.pipes:
            self.loop.watch(pipe, partial(self._take, ending, is_stderr, pipe))
        self.loop.watch(worker.process.descriptor, partial(self._ended, worker))

    def _take(self, ending: Ending, is_stderr: bool, pipe: int) -> bool:
        try:
            data = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            self.loop.forget(pipe)
        elif is_stderr:
            ending.stderr += data
        else:
            ending.stdout += data
        return bool(data)

    def _ended(self, worker: LocalWorker) -> None:
        ending = self.endings[worker.member]
        ending.status = worker.process.poll()
        self.loop.forget(worker.process.descriptor)
        for is_stderr, pipe in worker.pipes:
            while self._take(ending, is_stderr, pipe):
                pass
            self.loop.forget(pipe)
        worker.close()
        del self.workers[worker.member]


@contextmanager
def start(script: Path, *arguments: str, forked: bool = True, **environ: str) -> Iterator[Start]:
    """Start workers of `python SCRIPT` in its folder's parent; nothing is left behind."""
    command = [sys.executable, str(script), *arguments]
    before = adopt_orphans()
    running = Start(command, script.parent, {"STAVES_FORK": str(int(forked)), **environ})
    try:
        running.starter.prepare(devices())
        yield running
    finally:
        running.starter.close()
        for worker in running.workers.values():
            worker.close()
        end_orphans(before)
        running.loop.close()
