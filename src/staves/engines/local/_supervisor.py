"""The supervisor of one run on this machine: it starts, watches and ends the workers.

One thread, one selector: worker lines, their output and their deaths arrive as readable
descriptors. Failure notice comes from here (a process has gone), never from a collective that may
hang. Who trains with whom is decided by the pure `Coordinator`; this carries its messages, and
keeps the generation and the ledger on disk before anybody is told.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from staves.engines.local._control import ControlServer
from staves.engines.local._folder import RunFolder, staves_home
from staves.engines.local._history import History
from staves.engines.local._logs import LogFolder
from staves.engines.local._losses import EpochLosses
from staves.engines.local._outcome import Outcome, deserted
from staves.engines.local._output import OutputRelay
from staves.engines.local._places import local_ranks
from staves.engines.local._process import adopt_orphans, end_orphans
from staves.engines.local._pulse import Pulse
from staves.engines.local._store import StoreProcess
from staves.engines.local._worker import Worker
from staves.errors import InputError
from staves.hardware import Device
from staves.membership import (
    Command,
    Commit,
    Coordinator,
    End,
    Fail,
    Joiner,
    Propose,
    Quarantine,
    Restart,
    Start,
    Withdraw,
)

GRACE_SECONDS = 5.0
"""How long a worker that was asked to end may take when the run ends."""

_LEASE, _RENEW = 10.0, 3.0  # seconds
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)  # no crash of the script itself


class Supervisor:
    """Run one command on a set of devices, one worker each; the set may change meanwhile.

    Args:
        command: the script and its arguments.
        devices: all that the run may use; ranks in this order.
        folder: of the run.
        minimum: the run fails when fewer devices are left.
        grace: seconds that a rank may take to reach a step boundary when membership changes.
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
        folder: RunFolder,
        minimum: int = 1,
        grace: float = 30.0,
        environ: Mapping[str, str] | None = None,
        on_message: Callable[[int, dict[str, Any]], None] = lambda rank, message: None,
        on_output: Callable[[bool, bytes], None] = lambda is_stderr, data: None,
        on_warning: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._command, self._devices, self._folder = list(command), list(devices), folder
        self._minimum = minimum
        self._coordinator = Coordinator(
            slots=[device.name for device in devices],
            minimum=minimum,
            grace=grace,
            quarantine=Quarantine(one_event=2.0),
            start_within=math.inf,  # scripts may load data for long, or never train with staves
        )
        self._environ = _worker_environment(len(devices)) | dict(environ or {})
        self._environ["STAVES_RUN"] = str(folder.path)
        self._environ["STAVES_HOME"] = str(staves_home())
        self._on_message, self._on_warning = on_message, on_warning
        self._output = OutputRelay(LogFolder(folder.logs(1)), on_output, on_warning)
        self._history = History(folder)
        self._selector = selectors.DefaultSelector()
        self._control = ControlServer(self._asked)
        self._workers: dict[int, Worker] = {}
        self.losses = EpochLosses()
        self._pulse = Pulse(silence=max(grace, _LEASE))
        self.deadlines: list[dict[str, int]] = []  # of members that have left
        self._reports: dict[int, dict[str, Any]] = {}
        self._stores: list[StoreProcess] = []
        self._outcome: Outcome | None = None
        self._stopped_by: int | None = None
        self._children_before: set[int] = set()
        self._local_ranks = local_ranks(devices)
        self._ending = False
        self._hurry = False
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> Outcome:
        """Start the workers, watch them until all have ended, and say how it went.

        SIGINT and SIGTERM end the run: the workers are asked, then made to end. Nothing that was
        started is left behind, whatever happens.
        """
        self._children_before = adopt_orphans()
        with self._signals():
            try:
                self._start()
                self._watch()
            finally:
                self._end()
        if self._stopped_by is not None:
            return Outcome(self._reports, stopped_by=self._stopped_by)
        return self._outcome or Outcome(self._reports)

    # -- the loop

    def _start(self) -> None:
        self._folder.write(
            "run.json",
            {
                "pid": os.getpid(),
                "command": self._command,
                "devices": [device.name for device in self._devices],
                "port": self._control.port,
                "token": self._control.token,
            },
        )
        self._watch_for(self._control.listener.fileno(), self._accept)
        if len(self._devices) > 1:
            self._new_store()
        self._do(self._coordinator.start(time.monotonic()))

    def _watch(self) -> None:
        """Serve events until all workers have ended, or the run has failed or is stopped."""
        renewed = 0.0
        while self._workers and self._outcome is None and self._stopped_by is None:
            now = time.monotonic()
            deadline = self._coordinator.next_deadline()
            waits = [renewed + _RENEW - now, 1.0 if deadline is None else deadline - now]
            if self._output.holding:
                waits.append(0.1)
            self._serve(max(0.0, min(waits)))
            for member in self._pulse.silent(now):  # by the time before their answers were read
                self._do(self._coordinator.unresponsive(member, time.monotonic()))
            for member, lateness in self._pulse.late(now):
                worker = self._workers[member]
                self._on_warning(f"rank {self._rank(worker)} ({worker.device.name}) {lateness}")
            now = time.monotonic()
            if now - renewed >= _RENEW:
                renewed = now
                for worker in self._workers.values():
                    worker.tell("lease", seconds=_LEASE)
                    self._pulse.asked(worker.member, now)
            for member in self._output.outlived():
                rank = self._rank(self._workers[member]) if member in self._workers else None
                self._output.release(member, shown=rank == 0)
            self._do(self._coordinator.tick(now))

    def _serve(self, timeout: float) -> None:
        """Wait for events, and take them in."""
        for key, _ in self._selector.select(timeout):
            # An event before it may have ended what this one is about.
            if self._selector.get_map().get(key.fd) is key:
                key.data()

    def _watch_for(self, descriptor: int, call: Callable[[], object]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def _forget(self, descriptor: int) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    # -- what the coordinator wants

    def _do(self, commands: Sequence[Command]) -> None:
        for command in () if self._ending else commands:
            if isinstance(command, Start):
                self._start_worker(command)
            elif isinstance(command, End):
                self._end_worker(command)
            elif isinstance(command, Propose):
                fields = {"generation": command.generation, "broken": command.broken}
                self._tell(command.to, "propose", **fields)
            elif isinstance(command, Withdraw):
                self._tell(command.to, "withdraw", generation=command.generation)
            elif isinstance(command, Commit):
                self._commit(command)
            elif isinstance(command, Restart):
                self._on_warning(f"attempt {command.attempt} begins: {command.reason}")
                self._environ["STAVES_ATTEMPT"] = str(command.attempt)
                self._output.logs.close()
                self._output.logs = LogFolder(self._folder.logs(command.attempt))
            elif isinstance(command, Fail) and self._outcome is None:
                self._outcome = Outcome(self._reports, reason=command.reason)

    def _commit(self, commit: Commit) -> None:
        """Have the generation on disk, then tell it."""
        document = asdict(commit)
        self._folder.write("generation.json", document)
        self._history.committed(commit)
        address = self._stores[commit.store].address if self._stores else ("", 0)
        self._tell(commit.to, "commit", address=address, **document)

    def _tell(self, to: Sequence[int], kind: str, /, **fields: Any) -> None:
        for member in to:
            if member in self._workers:
                self._workers[member].tell(kind, **fields)

    def _start_worker(self, start: Start) -> None:
        device = next(d for d in self._devices if d.name == start.slot)
        slots = list(self._coordinator.slots)
        if not self._stores and (len(slots) > 1 or self._coordinator.generation > 0):
            self._new_store()
        self._environ.setdefault("STAVES_ATTEMPT", "1")
        worker = Worker(
            start.member,
            device,
            self._command,
            local_rank=self._local_ranks[device.name],
            rank=slots.index(start.slot) if start.slot in slots else 0,
            world_size=max(1, len(slots)),
            environ=self._environ,
        )
        self._workers[start.member] = worker
        self._watch_for(worker.channel.fileno(), partial(self._messages, worker))
        for is_stderr, pipe in ((False, worker.process.stdout), (True, worker.process.stderr)):
            assert pipe is not None
            call = partial(self._take_output, worker, pipe.fileno(), is_stderr)
            self._watch_for(pipe.fileno(), call)
        self._watch_for(worker.process.descriptor, partial(self._ended, worker))

    def _end_worker(self, end: End) -> None:
        worker = self._workers.get(end.member)
        if worker is None:
            return
        worker.told_to_end = True
        if not end.politely:
            self._on_warning(f"{worker.device.name} is ended: {end.reason}")
        worker.process.signal(signal.SIGTERM if end.politely else signal.SIGKILL)

    def _new_store(self) -> None:
        store = StoreProcess(self._environ)
        self._stores.append(store)
        self._watch_for(store.process.descriptor, partial(self._store_ended, store))

    # -- what happens

    def _rank(self, worker: Worker) -> int:
        members = self._coordinator.members
        if worker.member in members:
            return members.index(worker.member)
        return worker.first_rank

    def _messages(self, worker: Worker) -> None:
        now, coordinator, member = time.monotonic(), self._coordinator, worker.member
        for message in worker.messages():
            kind = message["kind"]
            self._pulse.heard(member, message, now)
            if kind == "hello":
                worker.said_hello = True
                joiner = Joiner(message["fingerprint"], message["about"])
                self._do(coordinator.hello(member, joiner, now))
            elif kind == "prepared":
                answer = message["generation"], message["step"], message["complete"]
                self._do(coordinator.prepared(member, *answer, now))
            elif kind == "evaluating":
                self._do(coordinator.busy(member, now))
            elif kind in ("loss", "epoch"):
                self._take_loss(member, message)
            elif kind == "step":
                self._history.stepped(message)
            elif kind == "formed":
                if message["rank"] == 0:
                    self._history.formed(message)
            elif kind == "deadlines" and message["deadlines"] is not None:
                self.deadlines.append(message["deadlines"])
            elif kind == "left":
                worker.left = True
            elif kind == "finished":
                worker.report = self._reports[member] = message["report"]
                self._do(coordinator.finished(member, now))
            elif kind == "deserted":
                self._outcome = self._outcome or deserted(
                    worker.device.name, message["step"], self._reports
                )
            elif kind == "refused":
                worker.refusal = message
            self._on_message(self._rank(worker), message)
        worker.flush()
        if worker.line_ended:  # it would be readable for ever
            self._forget(worker.channel.fileno())

    def _take_loss(self, member: int, message: dict[str, Any]) -> None:
        """Add up a rank's part of an epoch's loss, and tell all when it is whole."""
        epoch = message["epoch"]
        self.losses.take(member, self._coordinator.attempt, message)
        loss = self.losses.mean(epoch)
        if loss is not None and self.losses.told(epoch) >= len(self._coordinator.members):
            self._tell(self._coordinator.members, "loss", epoch=epoch, loss=loss)

    def _take_output(self, worker: Worker, descriptor: int, is_stderr: bool) -> bool:
        name = f"rank-{worker.first_rank}"
        shown = self._rank(worker) == 0
        try:
            return self._output.take(
                worker.member, name, descriptor, is_stderr=is_stderr, shown=shown
            )
        except EOFError:
            self._forget(descriptor)
            return False

    def _ended(self, worker: Worker) -> None:
        status = worker.process.poll()
        if status is None:
            return
        self._forget(worker.process.descriptor)
        self._messages(worker)
        for is_stderr, pipe in ((False, worker.process.stdout), (True, worker.process.stderr)):
            assert pipe is not None
            while self._take_output(worker, pipe.fileno(), is_stderr):
                pass
            self._forget(pipe.fileno())
        self._forget(worker.channel.fileno())
        del self._workers[worker.member]
        self._pulse.forget(worker.member)
        worker.close()
        ended_well = status == 0 or worker.left or worker.told_to_end
        if ended_well:
            self._output.release(worker.member, shown=self._rank(worker) == 0)
        if status == 0 and worker.said_hello and worker.unfinished:
            self._fail(worker, status)
            return
        if ended_well and not worker.said_hello:
            self._ended_untrained(worker)
            return
        if ended_well:
            pass
        elif status > 0 or not (worker.said_hello or -status in _FROM_OUTSIDE):
            self._fail(worker, status)  # the script itself fails: another try would fail alike
            return
        else:
            self._on_warning(f"{worker.device.name} was lost (signal {-status})")
        failed = not ended_well or worker.unfinished
        self._do(self._coordinator.exited(worker.member, time.monotonic(), failed=failed))

    def _ended_untrained(self, worker: Worker) -> None:
        """A script that never trained has ended well: nobody is started in its place."""
        if worker.told_to_end:
            self._do(self._coordinator.exited(worker.member, time.monotonic(), failed=False))
        elif any(other.said_hello for other in self._workers.values()):
            self._outcome = self._outcome or Outcome(
                self._reports,
                reason=f"{worker.device.name} ended without training, while others wait for it",
            )

    def _fail(self, worker: Worker, status: int) -> None:
        if self._outcome is not None:
            return
        name = f"rank-{worker.first_rank}"
        self._outcome = Outcome(
            self._reports,
            failed=(self._rank(worker), worker.device.name),
            status=status,
            traceback=self._output.logs.tail(name, 40),
            log=self._output.logs.path(name),
            refusal=worker.refusal,
        )

    def _store_ended(self, store: StoreProcess) -> None:
        self._forget(store.process.descriptor)
        if store is not self._stores[-1]:
            return
        self._on_warning("the rendezvous store was lost; a new one is started")
        self._new_store()
        self._do(self._coordinator.store_lost(time.monotonic()))

    # -- requests of other processes

    def _accept(self) -> None:
        connection = self._control.accept()
        if connection is not None:

            def serve() -> None:
                if not self._control.serve(connection):
                    self._forget(connection.fileno())
                    connection.close()

            self._watch_for(connection.fileno(), serve)

    def _asked(self, request: dict[str, Any]) -> dict[str, Any]:
        if "scale" in request:
            count = request["scale"]
            if not isinstance(count, int) or not self._minimum <= count <= len(self._devices):
                raise InputError(
                    f"{count} devices are outside of {self._minimum} to {len(self._devices)}",
                    hint="the run's --min and --max",
                )
            slots = [device.name for device in self._devices[:count]]
            self._do(self._coordinator.want(slots, time.monotonic()))
        return {
            "generation": self._coordinator.generation,
            "devices": [
                worker.device.name
                for member in self._coordinator.members
                if (worker := self._workers.get(member)) is not None
            ],
            "wanted": list(self._coordinator.slots),
        }

    # -- the end

    def _end(self) -> None:
        """End everything that was started: politely, then firmly."""
        self._ending = True
        for worker in self._workers.values():
            worker.told_to_end = True
            worker.process.signal(signal.SIGTERM)
        until = time.monotonic() + GRACE_SECONDS
        self._hurry = False  # from here on a further Ctrl-C sets it
        while self._workers and time.monotonic() < until and not self._hurry:
            self._serve(0.1)  # their last words, and their ends
        for worker in self._workers.values():
            worker.close()
        end_orphans(self._children_before)
        for store in self._stores:
            store.close()
        self._control.close()
        self._selector.close()
        self._history.close()
        self._output.logs.close()
        os.close(self._wake)
        os.close(self._waker)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, frame: object) -> None:
            self._stopped_by, self._hurry = number, True
            with contextlib.suppress(OSError):
                os.write(self._waker, b"x")

        self._watch_for(self._wake, partial(os.read, self._wake, 64))
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
