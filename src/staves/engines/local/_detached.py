"""A supervisor process of its own for one attempt: `python -m staves.engines.local FOLDER`.

It depends on nobody that lives: what it is to do it reads from the attempt's folder, and how it
stands it writes there.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from staves.engines._base import Ended, Launch
from staves.engines.local._attempt import AttemptFolder
from staves.engines.local._devices import from_document
from staves.engines.local._epoch_log import EpochLog
from staves.engines.local._hosts import Hosts, LocalHosts, Supervision
from staves.engines.local._logs import LogFolder
from staves.engines.local._outcome import Outcome, summarise
from staves.engines.local._status import StatusFile
from staves.engines.local._supervisor import Supervisor
from staves.errors import StavesError


class Detached:
    """Runs an attempt that this process has claimed."""

    def __init__(self, folder: AttemptFolder) -> None:
        self.folder = folder
        self.launch, local_ranks = folder.read_launch()
        self._names = [device.name for device in self.launch.devices]
        self._seen: dict[str, tuple[int, int]] = {}
        self._status_failed = False
        self._request = 0
        self._wanted, self._places = list(self.launch.devices), local_ranks
        self._leaving: set[str] = set()
        self.status = StatusFile(
            self._write_status, self._names, elastic=None if self.launch.per_device else False
        )
        self.supervisor = Supervisor(
            ["/bin/sh", "-c", self.launch.command],
            self.launch.devices,
            folder=folder,
            per_device=self.launch.per_device,
            minimum=self.launch.minimum,
            grace=self.launch.grace,
            environ=_environ(self.launch),
            workdir=self.launch.workdir,
            local_ranks=local_ranks,
            hosts=_hosts(folder),
            on_turn=self._turn,
            on_worker=folder.started,
            on_message=self._message,
            on_warning=lambda line: print(f"warning: {line}", flush=True),
        )

        self._logs = LogFolder(folder.logs(1))
        self._epochs = EpochLog(self._say)
        self._epochs.losses = self.supervisor.losses

    def run(self) -> Ended:
        """Run it to its end."""
        for earlier in self.folder.earlier():
            if earlier.ended:
                continue
            if earlier.supervised:
                raise StavesError(f"{earlier.name} still runs")
            earlier.clean()
        if not self.launch.workdir.is_dir():
            raise StavesError(f"workdir: {self.launch.workdir}: no such folder")
        if (self.folder.path / "stop.json").exists():
            return Ended("stopped", "before it was started")
        outcome = self.supervisor.run()
        self._epochs.close()
        self._logs.close()
        self.status.close(finished=outcome.ok)
        return self._ended(outcome)

    def _message(self, rank: int, message: dict[str, Any]) -> None:
        self.status.message(rank, message)
        self._epochs.message(rank, message)

    def _say(self, line: str) -> None:
        """Put a line into rank 0's log, where `staves run` would show it: among its output."""
        warning = self._logs.write("rank-0", f"staves: {line}\n".encode())
        if warning is not None:
            print(f"warning: {warning}", flush=True)

    def _turn(self) -> None:
        """Look for what was asked meanwhile, and write how things stand."""
        wanted = self._news("wanted.json")
        if wanted is not None and wanted["request"] > self._request:
            self._request = wanted["request"]
            devices = [from_document(document) for document in wanted["devices"]]
            self.status.resized(self._request, [device.name for device in devices])
            self._wanted, self._places = devices, wanted["local_ranks"]
            self._resize()
        stop = self._news("stop.json")
        if stop is not None:
            self.supervisor.stop(save=stop["save"], grace=stop["grace"])
        if self._leaving != (leaving := set(self.supervisor.hosts.leaving)):
            self._leaving = leaving
            self._resize()
        self.status.unusable(self.supervisor.unusable)
        self.status.pending(self.supervisor.hosts.pending)
        self.status.flush()

    def _resize(self) -> None:
        """Train on what is wanted, but for devices that will be taken away.

        These are had again as soon as the cluster gives them back. Where too few are left until
        then, the attempt is saved and ends: another goes on from there.
        """
        if not self.launch.per_device:
            return
        rest = [device for device in self._wanted if device.name not in self._leaving]
        if len(rest) >= max(1, self.launch.minimum) or not self._leaving:
            self.supervisor.resize(rest, self._places)
        elif self.supervisor.elastic:
            self._say(f"too few devices are left when {', '.join(sorted(self._leaving))} go")
            self.supervisor.stop(save=True, grace=self.launch.grace)

    def _news(self, name: str) -> dict[str, Any] | None:
        """Return what a file says where it is another than at the last look."""
        try:
            found = (self.folder.path / name).stat()
        except FileNotFoundError:
            return None
        if self._seen.get(name) == (found.st_ino, found.st_mtime_ns):
            return None
        self._seen[name] = found.st_ino, found.st_mtime_ns
        return self.folder.read(name)

    def _write_status(self, document: dict[str, Any]) -> None:
        part = self.folder.path / ".status.json.part"
        try:
            part.write_text(json.dumps(document))
            part.rename(self.folder.path / "status.json")
        except OSError as error:  # such as a full disk, which must not end the training
            if not self._status_failed:
                print(f"warning: status.json: {error.strerror}", flush=True)
            self._status_failed = True

    def _ended(self, outcome: Outcome) -> Ended:
        supervisor = self.supervisor
        figures = summarise(outcome, supervisor.losses, supervisor.deadlines)
        if not outcome.reports:
            figures = {}
        if outcome.told is not None:
            return Ended(outcome.told, outcome.reason or "", figures=figures)
        if outcome.ok:
            return Ended("finished", figures=figures)
        if outcome.refusal is not None:
            hint = outcome.refusal["hint"]
            reason = outcome.refusal["message"] + (f" ({hint})" if hint else "")
            return Ended("failed", reason, status=outcome.status)
        if outcome.failed is not None:
            last = outcome.traceback.strip().rpartition("\n")[2].strip()
            reason = f"{outcome.failure()}{': ' if last else ''}{last}"
            reason += f" ({outcome.advice})" if outcome.advice else ""
            return Ended("failed", reason, status=outcome.status)
        return Ended("failed", outcome.reason or "")


def main(path: Path) -> int:
    """Supervise the attempt in that folder, unless another process does or did.

    Returns the exit status of this process, which nobody has to look at.
    """
    folder = AttemptFolder(path)
    lock = folder.claim()
    if lock is None:
        return 0
    try:
        ended = Detached(folder).run()
    except StavesError as error:
        ended = Ended("failed", str(error))
    except Exception as error:  # whatever it is, the attempt has ended and must say so
        traceback.print_exc()
        ended = Ended("failed", f"its supervisor failed: {type(error).__name__}: {error}")
    folder.write_ended(ended)
    print(f"{ended.end}: {ended.reason}" if ended.reason else ended.end, flush=True)
    return 0  # the lock goes with the process, after the outcome is there


def _hosts(folder: AttemptFolder) -> Callable[[Supervision], Hosts]:
    """Return what makes the hosts: this machine, unless the attempt's folder names others."""
    document = folder.read_if_there("nodes.json")
    if document is None:
        return LocalHosts
    from staves.engines.agents._recall import hosts_of

    return partial(hosts_of, document, folder.name.replace("/", "-"))


def _environ(launch: Launch) -> dict[str, str]:
    environ = dict(launch.environ)
    if launch.checkpoint is not None:
        environ["STAVES_CHECKPOINT"] = str(launch.checkpoint.absolute())
    if launch.checkpoint_every is not None:
        environ["STAVES_CHECKPOINT_EVERY"] = f"{launch.checkpoint_every:g}s"
    return environ
