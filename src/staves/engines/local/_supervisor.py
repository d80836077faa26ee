"""The supervisor of one run on this machine: it starts, watches and ends the workers.

One thread, one selector: worker lines, their output and their deaths arrive as readable
descriptors. Failure notice comes from here (a process has gone), never from a collective that may
hang. Who trains with whom is decided by the pure `Coordinator`; this carries its messages, and
keeps the generation and the ledger on disk before anybody is told.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal

from staves.engines.local._deadlines import Deadlines
from staves.engines.local._environment import of_all_devices, of_one_device
from staves.engines.local._folder import RunFolder, staves_home
from staves.engines.local._history import History
from staves.engines.local._hosts import Hosts, LocalHosts, Supervision
from staves.engines.local._logs import LogFolder
from staves.engines.local._loop import Loop
from staves.engines.local._losses import EpochLosses
from staves.engines.local._outcome import Outcome, deserted, failure_of
from staves.engines.local._output import OutputRelay
from staves.engines.local._places import local_ranks as places
from staves.engines.local._process import adopt_orphans, end_orphans
from staves.engines.local._pulse import Pulse
from staves.engines.local._requests import Requests
from staves.engines.local._stopping import Stopping
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
    Propose,
    Quarantine,
    Restart,
    Start,
    Withdraw,
)

_LEASE, _RENEW = 10.0, 3.0  # seconds
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)  # no crash of the script itself


class Supervisor:
    """Run one command on a set of devices, one worker each; the set may change meanwhile.

    Args:
        command: the command line of a worker.
        devices: to begin with; ranks in this order.
        folder: of the run.
        per_device: whether the command is started for each device, or once with all of them.
        minimum: the run fails when fewer devices are left.
        grace: seconds that a rank may take to reach a step boundary when membership changes.
        environ: of the workers, but for what is added here; this process's own where None.
        workdir: where the workers run; here where None.
        local_ranks: the devices' places on this machine, where the caller knows better.
        hosts: makes what starts the workers: on this machine, unless another is given.
        on_turn: called at each turn of the loop, once a second at least.
        on_worker: called with the process id of each worker that was started on this machine.
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
        per_device: bool = True,
        minimum: int = 1,
        grace: float = 30.0,
        environ: Mapping[str, str] | None = None,
        workdir: Path | None = None,
        local_ranks: Mapping[str, int] | None = None,
        hosts: Callable[[Supervision], Hosts] = LocalHosts,
        on_turn: Callable[[], None] = lambda: None,
        on_worker: Callable[[int], None] = lambda pid: None,
        on_message: Callable[[int, dict[str, Any]], None] = lambda rank, message: None,
        on_output: Callable[[bool, bytes], None] = lambda is_stderr, data: None,
        on_warning: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._command, self._initial, self._folder = list(command), list(devices), folder
        self._devices = {device.name: device for device in devices}
        self._local_ranks = dict(local_ranks or places(devices))
        self._per_device, self._minimum = per_device, minimum
        self._coordinator = Coordinator(
            slots=list(self._devices)[: None if per_device else 1],
            minimum=minimum if per_device else 1,
            grace=grace,
            quarantine=Quarantine(one_event=2.0),
            start_within=math.inf,  # scripts may load data for long, or never train with staves
        )
        self._environ = dict(os.environ if environ is None else environ)
        self._environ["STAVES_RUN"] = str(folder.path)
        self._environ["STAVES_HOME"] = str(staves_home())
        self._on_message, self._on_warning = on_message, on_warning
        self._on_turn, self._on_worker = on_turn, on_worker
        self._output = OutputRelay(LogFolder(folder.logs(1)), on_output, on_warning)
        self._history = History(folder)
        self._loop = Loop()
        self._requests = Requests(self._loop, {"scale": self._scale}, self._state)
        self.hosts = hosts(
            Supervision(
                self._command,
                self._environ,
                Path.cwd() if workdir is None else workdir,
                self._loop,
                started=self._started,
                said=self._said,
                printed=self._printed,
                ended=self._ended,
                unstarted=self._unstarted,
                say=on_warning,
            )
        )
        self._environ |= self.hosts.environ(self._environ, devices if per_device else ())
        self._workers: dict[int, Worker] = {}
        self._early_ends: dict[int, End] = {}  # of members not started yet
        self.losses = EpochLosses()
        self._pulse = Pulse(silence=max(grace, _LEASE))
        self.deadlines = Deadlines()
        self._reports: dict[int, dict[str, Any]] = {}
        self._stores: list[StoreProcess] = []
        self._outcome: Outcome | None = None
        self._stopping = Stopping(
            grace=grace,
            save_on_signal=bool(self._environ.get("STAVES_CHECKPOINT")),
            say=on_warning,
        )
        self.stop = self._stopping.tell
        self.elastic = False
        self._begun = False  # whether any worker has been started
        self._wanted: list[str] | None = None
        self._children_before: set[int] = set()
        self._ending = False

    def run(self) -> Outcome:
        """Start the workers, watch them until all have ended, and say how it went.

        SIGINT and SIGTERM end the run: where it has a checkpoint folder, with a checkpoint; then
        the workers are asked, then made to end. Each further signal leaves out the step of these
        that is under way. Nothing that was started is left behind, whatever happens.
        """
        self._children_before = adopt_orphans()
        with self._loop.signals(self._stopping.signalled):
            try:
                self._start()
                self._watch()
            finally:
                self._end()
        return self._outcome or Outcome(self._reports)

    def resize(self, devices: Sequence[Device], local_ranks: Mapping[str, int]) -> None:
        """Train on these devices from the next possible boundary on.

        Before it is known that the command trains with staves nothing happens: another cannot be
        resized, and runs on what it has to its end.
        """
        self._devices |= {device.name: device for device in devices}
        self._local_ranks |= local_ranks
        self._wanted = [device.name for device in devices]
        if self.elastic:
            self._want()

    @property
    def unusable(self) -> tuple[str, ...]:
        """Devices that it was told to have, and cannot use: workers there failed, or are unlike."""
        return self._coordinator.unusable(time.monotonic())

    # -- the loop

    def _start(self) -> None:
        if checkpoint := self._environ.get("STAVES_CHECKPOINT"):
            self._history.claim(checkpoint)
        self.hosts.want(self._initial, per_device=self._per_device)
        about = {"pid": os.getpid(), "command": self._command, "devices": list(self._devices)}
        self._folder.write("run.json", about | self._requests.address())
        if len(self._coordinator.slots) > 1:
            self._new_store()
        self._do(self._coordinator.start(time.monotonic()))

    def _watch(self) -> None:
        """Serve events until all workers have ended, or the run has failed or is stopped."""
        renewed = 0.0
        while (self._workers or self.hosts.awaited) and self._outcome is None:
            self._on_turn()
            if self._must_end():
                break
            now = time.monotonic()
            deadline = self._coordinator.next_deadline()
            waits = [renewed + _RENEW - now, 1.0 if deadline is None else deadline - now]
            waits += [self._stopping.until - now, 0.1 if self._output.holding else math.inf]
            self._loop.serve(max(0.0, min(waits)))
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
            self.hosts.tick(now)
            self._do(self._coordinator.tick(now))
        if self._outcome is None and self.elastic and not self._coordinator.over:
            self._outcome = Outcome.nobody_left(self._reports)

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
                missing = set(self.hosts.missing) & set(self._coordinator.slots)
                self._outcome = Outcome.given_up(self._reports, command.reason, missing)

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
        device = self._devices[start.slot]
        slots = list(self._coordinator.slots)
        rank = slots.index(start.slot) if start.slot in slots else 0
        if not self._stores and (len(slots) > 1 or self._coordinator.generation > 0):
            self._new_store()
        self._environ.setdefault("STAVES_ATTEMPT", "1")
        variables = self._variables(start.member, device, rank, len(slots))
        self.hosts.start(start.member, device, rank=rank, environ=self._environ | variables)

    def _started(self, worker: Worker) -> None:
        self._workers[worker.member] = worker
        self._begun = True
        if worker.pid is not None:
            self._on_worker(worker.pid)
        if worker.member in self._early_ends:
            self._end_worker(self._early_ends.pop(worker.member))

    def _variables(self, member: int, device: Device, rank: int, world: int) -> dict[str, str]:
        if not self._per_device:
            return of_all_devices(self._initial, self._local_ranks)
        place, world = self._local_ranks[device.name], max(1, world)
        return of_one_device(device, local_rank=place, rank=rank, world_size=world, member=member)

    def _end_worker(self, end: End) -> None:
        worker = self._workers.get(end.member)
        if worker is None:
            if not self.hosts.cancel(end.member):
                self._early_ends[end.member] = end
            return
        worker.told_to_end = True
        if not end.politely:
            self._on_warning(f"{worker.device.name} is ended: {end.reason}")
        worker.signal(signal.SIGTERM if end.politely else signal.SIGKILL)

    def _new_store(self) -> None:
        store = StoreProcess(self.hosts.address)
        self._stores.append(store)
        self._loop.watch(store.process.descriptor, partial(self._store_ended, store))

    # -- what happens

    def _rank(self, worker: Worker) -> int:
        members = self._coordinator.members
        if worker.member in members:
            return members.index(worker.member)
        return worker.first_rank

    def _said(self, worker: Worker, data: bytes) -> None:
        now, coordinator, member = time.monotonic(), self._coordinator, worker.member
        for message in worker.messages(data):
            kind = message["kind"]
            self._pulse.heard(member, message, now)
            self.deadlines.take(member, message)
            if kind == "hello":
                joiner, self.elastic = worker.greet(message), not message["fixed"]
                self._minimum = self._minimum if self.elastic else len(self._initial)
                self._do(coordinator.hello(member, joiner, now))
                if self.elastic and self._wanted not in (None, list(coordinator.slots)):
                    self._want()
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
            elif kind == "left":
                worker.left = True
            elif kind == "saved":
                self._saved(worker, message)
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

    def _take_loss(self, member: int, message: dict[str, Any]) -> None:
        """Add up a rank's part of an epoch's loss, and tell all when it is whole."""
        epoch = message["epoch"]
        self.losses.take(member, self._coordinator.attempt, message)
        loss = self.losses.mean(epoch)
        if loss is not None and self.losses.told(epoch) >= len(self._coordinator.members):
            self._tell(self._coordinator.members, "loss", epoch=epoch, loss=loss)

    def _printed(self, worker: Worker, is_stderr: bool, data: bytes) -> None:
        name, shown = f"rank-{worker.first_rank}", self._rank(worker) == 0
        self._output.take(worker.member, name, data, is_stderr=is_stderr, shown=shown)

    def _unstarted(self, member: int, reason: str) -> None:
        """A worker that was asked for will never be: its device cannot be had."""
        if reason and self._outcome is None:
            self._on_warning(reason)
            if not self.elastic:  # no other than these devices will do
                self._outcome = Outcome.without_device(self._reports, reason, begun=self._begun)
        self._do(self._coordinator.exited(member, time.monotonic(), failed=bool(reason)))

    def _ended(self, worker: Worker, status: int) -> None:
        del self._workers[worker.member]
        self._pulse.forget(worker.member)
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
        elif not self._may_be_replaced(worker, status):
            self._fail(worker, status)  # the script itself fails: another try would fail alike
            return
        else:
            how = worker.gone_with or f"signal {-status}"
            self._on_warning(f"{worker.device.name} was lost ({how})")
        failed = not ended_well or worker.unfinished
        self._do(self._coordinator.exited(worker.member, time.monotonic(), failed=failed))

    def _may_be_replaced(self, worker: Worker, status: int) -> bool:
        """Whether a worker that has failed is started again.

        What has not said that it trains is not: a command may do something that must not be done
        twice. Beside others that train it is a joiner that was lost.
        """
        lost = worker.said_hello or (self.elastic and -status in _FROM_OUTSIDE)
        return status < 0 and lost and not worker.fixed

    def _ended_untrained(self, worker: Worker) -> None:
        """A script that never trained has ended well: nobody is started in its place."""
        if worker.told_to_end:
            self._do(self._coordinator.exited(worker.member, time.monotonic(), failed=False))
        elif any(other.said_hello for other in self._workers.values()):
            self._outcome = self._outcome or Outcome.untrained(self._reports, worker.device.name)

    def _fail(self, worker: Worker, status: int) -> None:
        if self._outcome is None:
            rank, logs = self._rank(worker), self._output.logs
            self._outcome = failure_of(worker, rank, status, self._reports, logs)

    def _store_ended(self, store: StoreProcess) -> None:
        self._loop.forget(store.process.descriptor)
        if store is not self._stores[-1]:
            return
        self._on_warning("the rendezvous store was lost; a new one is started")
        self._new_store()
        self._do(self._coordinator.store_lost(time.monotonic()))

    # -- requests of other processes

    def _scale(self, count: object) -> None:
        if not isinstance(count, int) or not self._minimum <= count <= len(self._initial):
            raise InputError(
                f"{count} devices are outside of {self._minimum} to {len(self._initial)}",
                hint="the run's --min and --max; the ranks of a sharded model are fixed",
            )
        self._wanted = [device.name for device in self._initial[:count]]
        self._want()

    def _want(self) -> None:
        assert self._wanted is not None
        self.hosts.want([self._devices[name] for name in self._wanted])
        self._do(self._coordinator.want(self._wanted, time.monotonic()))

    def _state(self) -> dict[str, Any]:
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

    def _must_end(self) -> bool:
        """Do what is due where the run was told to stop; whether it ends right now."""
        due = self._stopping.due(self._coordinator.members, self._coordinator.generation)
        if due == "end":
            self._told("stopped")
        elif due is not None:
            self._tell([due], "save")
        return self._outcome is not None

    def _saved(self, worker: Worker, message: dict[str, Any]) -> None:
        saved = self._stopping.saved(worker.member, message)
        if saved is None or self._outcome is not None or worker.told_to_end:
            return
        if saved:
            self._told("saved")
            self._tell(list(self._workers), "leave")
        else:
            self._told("stopped", "no checkpoint could be written")

    def _told(self, end: Literal["saved", "stopped"], reason: str | None = None) -> None:
        by = self._stopping.signal
        self._outcome = Outcome(self._reports, told=end, reason=reason, stopped_by=by)

    def _end(self) -> None:
        """End everything that was started: at a boundary, politely, then firmly."""
        self._ending = True
        self._stopping.begin_to_end()
        self.hosts.cease()
        if self._outcome is not None and self._outcome.told == "saved":
            self._hear_out(self._stopping.leave_patience)
        for worker in self._workers.values():
            worker.told_to_end = True
            worker.signal(signal.SIGTERM)
        self._hear_out(lambda: self._stopping.patience)
        self.hosts.close()
        end_orphans(self._children_before)
        for store in self._stores:
            store.close()
        self._requests.close()
        self._loop.close()
        self._history.close()
        self._output.logs.close()

    def _hear_out(self, patience: Callable[[], float]) -> None:
        """Take in the workers' last words, and their ends, while there is patience."""
        while self._workers and patience() > 0:
            self._loop.serve(0.1)
