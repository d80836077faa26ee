"""The supervisor of one run on this machine: it starts, watches and ends the workers.

One thread, one selector: worker lines, their output and their deaths arrive as readable
descriptors. Failure notice comes from here (a process has gone), never from a collective that may
hang.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from staves.engines.local._logs import LogFolder, staves_home
from staves.engines.local._store import StoreProcess
from staves.engines.local._worker import Worker
from staves.hardware import Device

GRACE_SECONDS = 5.0
"""How long a worker that was asked to end may take."""

_TRACEBACK = b"Traceback (most recent call last):"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    `failed_rank` is the first rank that failed, with its exit `status` (negative: a signal) and the
    `traceback` of the script; `refusal` is an input error of ours that ended it instead. `reports`
    are the finished ranks' figures.
    """

    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    failed_rank: int | None = None
    status: int = 0
    traceback: str = ""
    refusal: dict[str, Any] | None = None
    stopped_by: int | None = None

    @property
    def ok(self) -> bool:
        """Whether every rank ended well."""
        return self.failed_rank is None and self.refusal is None and self.stopped_by is None


class Supervisor:
    """Run one command on a set of devices, one worker each.

    Args:
        command: the script and its arguments.
        devices: one worker is started for each, ranks in this order.
        logs: where each rank's output is kept.
        environ: added to this process's environment for the workers.
        on_message: called with (rank, message) for every message of a worker.
        on_output: called with (is_stderr, data) for rank 0's output, as it comes.
        on_warning: called with a line for people.
    """

    def __init__(
        self,
        command: Sequence[str],
        devices: Sequence[Device],
        *,
        logs: LogFolder,
        environ: Mapping[str, str] | None = None,
        on_message: Callable[[int, dict[str, Any]], None] = lambda rank, message: None,
        on_output: Callable[[bool, bytes], None] = lambda is_stderr, data: None,
        on_warning: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._command, self._devices, self._logs = list(command), list(devices), logs
        self._environ = _worker_environment(len(self._devices)) | dict(environ or {})
        self._on_message, self._on_output, self._on_warning = on_message, on_output, on_warning
        self._selector = selectors.DefaultSelector()
        self._workers: list[Worker] = []
        self._store: StoreProcess | None = None
        self._running: set[int] = set()
        self._held = b""
        self._stopped_by: int | None = None
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> Outcome:
        """Start the workers, watch them until all have ended, and say how it went.

        SIGINT and SIGTERM end the run: the workers are asked, then made to end. Nothing that was
        started is left behind, whatever happens.
        """
        with self._signals():
            try:
                self._start()
                failed = self._watch()
            finally:
                self._end()
        reports = {w.rank: w.report for w in self._workers if w.report is not None}
        refusal = next((w.refusal for w in self._workers if w.refusal is not None), None)
        if self._stopped_by is not None:
            return Outcome(reports, stopped_by=self._stopped_by)
        if failed is None:
            return Outcome(reports)
        return Outcome(
            reports,
            failed_rank=failed.rank,
            status=failed.process.poll() or 0,
            traceback=self._logs.tail(failed.rank, 40),
            refusal=refusal,
        )

    def _start(self) -> None:
        world = len(self._devices)
        if world > 1:
            self._store = StoreProcess(self._environ)
            self._watch_for(self._store.process.descriptor, self._store_ended)
        for rank, device in enumerate(self._devices):
            worker = Worker(
                rank,
                world,
                device,
                self._command,
                environ=self._environ,
                home=staves_home(),
                store=None if self._store is None else self._store.address,
            )
            self._workers.append(worker)
            self._running.add(rank)
            self._watch_for(worker.channel.fileno(), partial(self._messages, worker))
            for is_stderr, pipe in ((False, worker.process.stdout), (True, worker.process.stderr)):
                assert pipe is not None
                descriptor = pipe.fileno()
                self._watch_for(descriptor, partial(self._output, worker, is_stderr, descriptor))
            self._watch_for(worker.process.descriptor, partial(self._ended, worker))

    def _watch_for(self, descriptor: int, call: Callable[[], object]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def _forget(self, descriptor: int) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def _watch(self) -> Worker | None:
        """Serve events until all workers have ended; return the first that failed."""
        self._failed: Worker | None = None
        while self._running and self._failed is None and self._stopped_by is None:
            for key, _ in self._selector.select():
                key.data()
        return self._failed

    def _messages(self, worker: Worker) -> None:
        for message in worker.messages():
            if message["kind"] == "finished":
                worker.report = message["report"]
            elif message["kind"] == "refused":
                worker.refusal = message
            self._on_message(worker.rank, message)
        if worker.line_ended:  # it would be readable for ever
            self._forget(worker.channel.fileno())

    def _output(self, worker: Worker, is_stderr: bool, descriptor: int) -> bool:
        """Take in what a worker has printed; return whether there may be more."""
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            self._forget(descriptor)
            return False
        warning = self._logs.write(worker.rank, data)
        if warning is not None:
            self._on_warning(warning)
        if worker.rank != 0:
            return True
        # Another rank's failure makes this one fail too, a moment later: its traceback is held back
        # until it is known who failed first.
        if is_stderr and (self._held or _TRACEBACK in data):
            before, _, _ = data.partition(_TRACEBACK) if not self._held else (b"", b"", b"")
            self._held += data[len(before) :]
            data = before
        if data:
            self._on_output(is_stderr, data)
        return True

    def _ended(self, worker: Worker) -> None:
        status = worker.process.poll()
        if status is None:
            return
        self._forget(worker.process.descriptor)
        self._drain(worker)
        self._running.discard(worker.rank)
        if status != 0 and self._failed is None:
            self._failed = worker
        elif worker.rank == 0 and self._held:  # it only looked like a failure
            self._on_output(True, self._held)
            self._held = b""

    def _drain(self, worker: Worker) -> None:
        """Read what a worker that has ended still left in its pipes and on its line."""
        self._messages(worker)
        for is_stderr, pipe in ((False, worker.process.stdout), (True, worker.process.stderr)):
            assert pipe is not None
            while self._output(worker, is_stderr, pipe.fileno()):
                pass
            self._forget(pipe.fileno())
        self._forget(worker.channel.fileno())

    def _store_ended(self) -> None:
        assert self._store is not None
        self._forget(self._store.process.descriptor)
        self._on_warning("the rendezvous store has ended; the run goes on without it")

    def _end(self) -> None:
        """End everything that was started: politely, then firmly."""
        left = [w for w in self._workers if w.process.poll() is None]
        for worker in left:
            worker.process.signal(signal.SIGTERM)
        until = time.monotonic() + GRACE_SECONDS
        while any(w.process.poll() is None for w in left) and time.monotonic() < until:
            self._selector.select(timeout=0.02)  # also: a second Ctrl-C must not wait
        for worker in self._workers:
            worker.close()
        if self._store is not None:
            self._store.close()
        self._selector.close()
        self._logs.close()
        os.close(self._wake)
        os.close(self._waker)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, frame: object) -> None:
            self._stopped_by = number
            with contextlib.suppress(OSError):
                os.write(self._waker, b"x")

        self._watch_for(self._wake, lambda: None)
        previous = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _worker_environment(world_size: int) -> dict[str, str]:
    environ = dict(os.environ)
    environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all workers are on this machine
    if world_size > 1:
        environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // world_size)))
    return environ
