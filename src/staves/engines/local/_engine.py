"""The engine of this machine: each attempt has a supervisor process of its own.

The supervisor is detached: it survives whoever launched it. All that is known of an attempt is in
its folder (see `_attempt`), so that any process of this user can steer it; nothing is kept here but
what was read of those files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from staves.engines._base import Ended, Engine, Launch, Phase, Status
from staves.engines.local._attempt import AttemptFolder
from staves.engines.local._control import wake
from staves.engines.local._devices import to_document
from staves.engines.local._places import local_ranks
from staves.errors import InputError, StavesError
from staves.hardware import Cluster, Device

UNCLAIMED_FOR = 60.0
"""Seconds after a launch without a supervisor, after which none is waited for any more."""

_OF_A_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class LocalEngine(Engine):
    """Runs attempts on this machine.

    Args:
        home: the folder of everything Staves keeps; attempts are in its `jobs`.
        cluster: the devices of this machine, some or all of them emulated.
    """

    name: str = "local"

    def __init__(self, home: Path, cluster: Cluster) -> None:
        self._home, self._cluster = home.absolute(), cluster
        self._read: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = {}
        self._places: dict[str, int] | None = None
        self._cleaned: set[Path] = set()

    def cluster(self) -> Cluster:
        """Return the nodes and devices there are now."""
        return self._cluster

    def launch(self, launch: Launch) -> None:
        """Start an attempt, unless it has been started already; returns at once.

        Raises:
            InputError: it names no device, a device twice, or one that this machine does not have.
            StavesError: it cannot be started; nothing of it runs.
        """
        folder = self._folder(launch.job, launch.attempt)
        if not (folder.path / "launch.json").exists():
            self._admit(folder, launch)
        if not folder.claimed:
            os.utime(folder.path / "launch.json")
            self._spawn(folder)

    def resize(self, job: str, attempt: int, devices: Sequence[Device], request: int) -> None:
        """Give a running attempt these devices from its next possible step boundary on.

        What is not known to be elastic keeps what it has until it is.

        Raises:
            InputError: no attempt was launched, or the devices are none that it could have.
        """
        folder = self._folder(job, attempt)
        launch = self._json(folder, "launch.json")
        if launch is None:
            raise InputError(f"{folder.name}: was never launched")
        _check(devices, launch["minimum"])
        newest = self._json(folder, "wanted.json")
        if newest is not None and newest["request"] >= request:
            return
        document = {
            "request": request,
            "devices": [to_document(device) for device in devices],
            "local_ranks": self._local_ranks(devices),
        }
        folder.write("wanted.json", document)
        wake(folder)

    def stop(self, job: str, attempt: int, *, save: bool, grace: float) -> None:
        """End an attempt: with a checkpoint at its next step boundary, or as it stands.

        What has not ended after `grace` seconds is ended by force. Told again, it can only become
        more urgent.
        """
        folder = self._folder(job, attempt)
        if self._json(folder, "launch.json") is None or folder.ended:
            return
        before = self._json(folder, "stop.json") or {"save": save, "grace": grace}
        told = {"save": save and before["save"], "grace": min(grace, before["grace"])}
        if told != self._json(folder, "stop.json"):
            folder.write("stop.json", told)
            wake(folder)

    def status(self, job: str, attempt: int) -> Status:
        """Return how an attempt stands; one that is found lost has been cleaned up first."""
        folder = self._folder(job, attempt)
        phase = self._phase(folder)
        said = self._json(folder, "status.json") or {}
        ended = self._json(folder, "outcome.json") if phase == "ended" else None
        return Status(
            phase=phase,
            elastic=said.get("elastic"),
            request=said.get("request", 0),
            wanted=tuple(said.get("wanted", ())),
            devices=tuple(said.get("devices", ())),
            unusable=tuple(said.get("unusable", ())),
            pending=said.get("pending", ""),
            generation=said.get("generation", 0),
            progress=said.get("progress", {}),
            knowledge=said.get("knowledge"),
            spans=tuple(said.get("spans", ())),
            ended=None if ended is None else Ended(**ended),
        )

    def logs(self, job: str, attempt: int) -> dict[str, Path]:
        """Return the attempt's log files by name: `rank-0`, ..., and `supervisor`."""
        folder = self._folder(job, attempt)
        found = [*folder.logs(1).glob("rank-*.log"), folder.path / "supervisor.log"]
        by_rank = sorted(found, key=lambda path: (len(path.stem), path.stem))
        return {path.stem: path for path in by_rank if path.exists()}

    def _folder(self, job: str, attempt: int) -> AttemptFolder:
        return AttemptFolder.of(self._home, job, attempt)

    # -- to start one

    def _admit(self, folder: AttemptFolder, launch: Launch) -> None:
        """Check a launch that is new, and have it on disk."""
        _check(launch.devices, launch.minimum)
        if not launch.workdir.is_dir():
            raise InputError(f"workdir: {launch.workdir}: no such folder")
        places = self._local_ranks(launch.devices)
        for earlier in folder.earlier():
            if not earlier.ended and earlier.supervised:
                raise StavesError(f"{earlier.name} still runs", hint="stop it first")
        try:
            folder.write_launch(launch, places)
        except OSError as error:
            raise StavesError(
                f"{folder.path}: {error.strerror or error}",
                hint="set STAVES_HOME to a folder with space that you may write",
            ) from None

    def _spawn(self, folder: AttemptFolder) -> None:
        """Start a supervisor that is nobody's child: the shell between us ends at once."""
        words = [sys.executable, "-P", "-m", "staves.engines.local", str(folder.path)]
        with (folder.path / "supervisor.log").open("ab") as log:
            done = subprocess.run(
                ["/bin/sh", "-c", '"$@" &', "staves", *words],
                env=self._environ(),
                cwd=folder.path,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                check=False,
            )
        if done.returncode != 0:
            raise StavesError(
                f"{folder.name}: no supervisor could be started", hint=f"see {log.name}"
            )

    def _environ(self) -> dict[str, str]:
        """Return this process's environment, without what it says of this process itself."""
        environ = {
            name: value
            for name, value in os.environ.items()
            if name not in _OF_A_RANK and (name == "STAVES_SERVICE" or name[:7] != "STAVES_")
        }
        paths = environ.get("PYTHONPATH", "").split(os.pathsep)
        environ["PYTHONPATH"] = os.pathsep.join(str(Path(p).absolute()) for p in paths if p)
        return environ | {"STAVES_HOME": str(self._home)}

    def _local_ranks(self, devices: Sequence[Device]) -> dict[str, int]:
        """Return each device's place: a GPU has one of its own among all of the cluster."""
        ranks = {device.name: rank for rank, device in enumerate(devices)}
        gpus = [d for d in devices if not d.type.emulated and d.type.name != "local-cpu"]
        if gpus and self._places is None:
            self._places = local_ranks(self._cluster.devices())
        for device in gpus:
            if self._places is None or device.name not in self._places:
                raise InputError(f"{device.name}: this machine has no such device")
            ranks[device.name] = self._places[device.name]
        return ranks

    # -- to look at one

    def _phase(self, folder: AttemptFolder) -> Phase:
        if folder.ended:
            return "ended"
        if folder.supervised:
            return "running"
        if not folder.claimed:
            try:
                launched = (folder.path / "launch.json").stat().st_mtime
            except FileNotFoundError:
                return "absent"
            # With the claim taken no supervisor that is late after all can start anything.
            if time.time() - launched < UNCLAIMED_FOR or (claim := folder.claim()) is None:
                return "starting"
            os.close(claim)
        if folder.ended:  # since the first look
            return "ended"
        if folder.path not in self._cleaned:
            folder.clean()
            self._cleaned.add(folder.path)
        return "lost"

    def _json(self, folder: AttemptFolder, name: str) -> dict[str, Any] | None:
        """Return a file of an attempt, None where there is none; read again when it is another."""
        path = folder.path / name
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
        version = found.st_ino, found.st_mtime_ns
        kept = self._read.get(path)
        if kept is None or kept[0] != version:
            kept = self._read[path] = version, folder.read(name)
        return kept[1]


def _check(devices: Sequence[Device], minimum: int) -> None:
    names = [device.name for device in devices]
    if len(set(names)) != len(names):
        raise InputError(f"devices: one is named twice in {', '.join(names)}")
    if len(names) < max(1, minimum):
        raise InputError(f"devices: {len(names)} are fewer than {max(1, minimum)}")
