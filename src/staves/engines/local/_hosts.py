"""The seam between the supervisor and the machines on which its workers run.

The supervisor says which worker is wanted for which device, and hears what becomes of it. Whether
that is a process here or one on another node is the hosts' matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from staves.engines.local._environment import of_all_workers
from staves.engines.local._loop import Loop
from staves.engines.local._starting import Starter
from staves.engines.local._worker import LocalWorker, Worker
from staves.hardware import Device


@dataclass(frozen=True, slots=True)
class Supervision:
    """What hosts are told once, and whom they tell. All calls come from the loop's own thread.

    Args:
        command: the command line of a worker.
        environ: what all workers have in theirs; the supervisor adds to it.
        workdir: where they run.
        loop: the supervisor's.
        started: called with each worker, once, before anything else is told of it.
        said: called with a worker and bytes that have come on its line.
        printed: called with a worker, whether it was on standard error, and what it printed.
        ended: called with a worker and its exit status (negative: a signal). All that it has said
            and printed has been told; the worker is gone.
        unstarted: called with a member that will never start, and why; empty where it was called
            off.
        say: called with a line for people.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    workdir: Path
    loop: Loop
    started: Callable[[Worker], None]
    said: Callable[[Worker, bytes], None]
    printed: Callable[[Worker, bool, bytes], None]
    ended: Callable[[Worker, int], None]
    unstarted: Callable[[int, str], None]
    say: Callable[[str], None]


class Hosts(ABC):
    """Starts workers, and ends them with all that they have started."""

    address: str = "127.0.0.1"
    """Where the rendezvous store listens: an address of this machine that all workers reach."""

    @abstractmethod
    def environ(self, environ: Mapping[str, str], devices: Sequence[Device]) -> dict[str, str]:
        """Return `environ` with what all workers should have.

        Args:
            environ: what they have already, which wins.
            devices: one for each worker to begin with; none where one worker has all there are.
        """

    @abstractmethod
    def want(self, devices: Sequence[Device], *, per_device: bool = True) -> None:
        """Workers will be asked for on these devices; others are given back as they fall free.

        Called before the first start, and at each change. `per_device` is false where one worker
        will have all of them.
        """

    @abstractmethod
    def start(self, member: int, device: Device, *, rank: int, environ: Mapping[str, str]) -> None:
        """Start the worker of that member; `started` is called with it, or `unstarted`."""

    def cancel(self, member: int) -> bool:
        """Call a start off; return whether it is: then `unstarted` follows, and nothing starts."""
        return False

    @property
    @abstractmethod
    def awaited(self) -> Collection[int]:
        """Members that were asked for and have not started yet."""

    @property
    def pending(self) -> str:
        """Why workers that are awaited have not started, for people; empty where that is soon."""
        return ""

    @property
    def missing(self) -> Collection[str]:
        """Names of devices that the cluster took, or did not give, and has not given since."""
        return ()

    @property
    def leaving(self) -> Collection[str]:
        """Names of devices that will be taken away soon: the attempt should not rely on them."""
        return ()

    @abstractmethod
    def tick(self, now: float) -> None:
        """Do what is due; called once a second at least, with the time of the monotonic clock."""

    @abstractmethod
    def cease(self) -> None:
        """Start nothing more."""

    @abstractmethod
    def close(self) -> None:
        """End all workers that are left by force, and release everything."""


class LocalHosts(Hosts):
    """This machine: workers are child processes."""

    def __init__(self, supervision: Supervision) -> None:
        self._of = supervision
        self._loop = supervision.loop
        self._starter = Starter(
            supervision.command,
            supervision.environ,
            supervision.workdir,
            supervision.loop,
            self._started,
            supervision.say,
        )
        self._workers: dict[int, LocalWorker] = {}
        self._prepared = False

    def environ(self, environ: Mapping[str, str], devices: Sequence[Device]) -> dict[str, str]:
        """Return `environ` with what processes that share this machine's cores should have."""
        return of_all_workers(environ, devices)

    def want(self, devices: Sequence[Device], *, per_device: bool = True) -> None:
        """Start the nursery at the first call, where it will serve workers of all devices."""
        if not self._prepared:
            self._prepared = True
            self._starter.prepare(devices if per_device else ())

    def start(self, member: int, device: Device, *, rank: int, environ: Mapping[str, str]) -> None:
        """Start the worker of that member."""
        self._starter.start(member, device, rank=rank, environ=environ)

    @property
    def awaited(self) -> Collection[int]:
        """Members that the nursery was asked for."""
        return self._starter.awaited

    def tick(self, now: float) -> None:
        """See that the nursery answers."""
        self._starter.tick(now)

    def cease(self) -> None:
        """Start nothing more."""
        self._starter.close()

    def close(self) -> None:
        """End all workers that are left by force, and release everything."""
        self._starter.close()
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    # -- what becomes of them

    def _started(self, worker: LocalWorker) -> None:
        self._workers[worker.member] = worker
        self._loop.watch(worker.channel.fileno(), partial(self._hear, worker))
        for is_stderr, pipe in worker.pipes:
            self._loop.watch(pipe, partial(self._read, worker, pipe, is_stderr))
        self._loop.watch(worker.process.descriptor, partial(self._ended, worker))
        self._of.started(worker)

    def _hear(self, worker: LocalWorker) -> None:
        data = worker.receive()
        if data:
            self._of.said(worker, data)
        worker.flush()
        if worker.line_ended:  # it would be readable for ever
            self._loop.forget(worker.channel.fileno())

    def _read(self, worker: LocalWorker, descriptor: int, is_stderr: bool) -> bool:
        """Take in what was printed; return whether there may be more."""
        data = worker.read(descriptor)
        if data is None:
            return False
        if not data:
            self._loop.forget(descriptor)
            return False
        self._of.printed(worker, is_stderr, data)
        return True

    def _ended(self, worker: LocalWorker) -> None:
        status = worker.process.poll()
        if status is None:
            return
        self._loop.forget(worker.process.descriptor)
        self._hear(worker)
        for is_stderr, pipe in worker.pipes:
            while self._read(worker, pipe, is_stderr):
                pass
            self._loop.forget(pipe)
        self._loop.forget(worker.channel.fileno())
        del self._workers[worker.member]
        worker.close()
        self._of.ended(worker, status)
