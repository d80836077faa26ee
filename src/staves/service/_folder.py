"""Where a service lives: HOME/service, and the lock there that says whether one runs.

HOME/service/lock            held by the controller as long as it lives; its pid stands in it
HOME/service/address.json    url and pid of the controller; there while it can be reached
HOME/service/token           the administrator's token, for the commands on this machine
HOME/service/cluster.json    the cluster that `staves up` was last given
HOME/service/downed          there after `staves down` over a dead controller, until the next one
HOME/service/engine.json     what runs its jobs: the engine's name and options
HOME/service/controller.log  what the controller prints
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from staves.errors import InputError, StavesError
from staves.locks import is_locked

State = Literal["absent", "starting", "up", "dead"]
"""absent: none runs, none is missed. starting: its address is not told yet. up: it can be reached.
dead: a controller has died without a word, and its jobs may go on."""

_ASKED = 2.0  # seconds: longer than any question whether the lock is held


class ServiceFolder:
    """The service's folder in `home`, the folder of everything Staves keeps."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / "service"
        self.token_file = self.path / "token"
        self.log_file = self.path / "controller.log"
        self.cluster_file = self.path / "cluster.json"
        self._engine_file = self.path / "engine.json"
        self._downed = self.path / "downed"
        self._address = self.path / "address.json"
        self._lock = self.path / "lock"

    def create(self) -> None:
        """Make the folder, for its owner alone.

        Raises:
            StavesError: it cannot be made.
        """
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StavesError(
                f"{self.path}: {error.strerror or error}",
                hint="set STAVES_HOME to a folder that you may write",
            ) from None

    @property
    def state(self) -> State:
        """How the service stands."""
        address = self._address.exists()  # before the lock: who dies in between is dead, not up
        if is_locked(self._lock):
            return "up" if address else "starting"
        return "dead" if address else "absent"

    @property
    def pid(self) -> int | None:
        """The pid of the controller that holds the lock; None where none does."""
        deadline = time.monotonic() + _ASKED
        while is_locked(self._lock) and time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):  # it takes the lock, then writes
                return int(self._lock.read_text())
            time.sleep(0.01)
        return None

    def address(self) -> tuple[str, int] | None:
        """Return URL and pid of the controller as it last told them."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads(self._address.read_bytes())
            return str(told["url"]), int(told["pid"])
        return None

    def tell_address(self, url: str, pid: int | None = None) -> None:
        """Let others find the controller: this process, or the one that was."""
        part = self.path / f".address.{os.getpid()}"
        part.write_text(json.dumps({"url": url, "pid": pid or os.getpid()}))
        part.rename(self._address)

    def forget_address(self) -> None:
        """Be found no more."""
        self._address.unlink(missing_ok=True)

    def mark_down(self) -> None:
        """Let the next controller know that jobs of one which has died were ended on purpose."""
        with contextlib.suppress(FileNotFoundError):  # no service has ever been here
            self._downed.touch()

    @property
    def downed(self) -> bool:
        """Whether that is so."""
        return self._downed.exists()

    def forget_down(self) -> None:
        """It has been taken in."""
        self._downed.unlink(missing_ok=True)

    def lock(self) -> int:
        """Become the controller, for as long as this process lives or the result is open.

        Returns:
            The lock's descriptor. A child that inherited it would hold the lock as well.

        Raises:
            InputError: another one is the controller.
        """
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _ASKED
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # another controller, or somebody who asks for one
                if time.monotonic() > deadline:
                    os.close(descriptor)
                    raise self.runs_already() from None
                time.sleep(0.01)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return descriptor

    def runs_already(self) -> InputError:
        """Return the error that says who the controller is."""
        address = self.address()
        where = f" at {address[0]}" if address else ""
        return InputError(
            f"a service runs already: process {self.pid}{where}",
            hint="`staves down` ends it; another STAVES_HOME holds another one",
        )

    def token(self) -> str | None:
        """Return the administrator's token; None before the first `staves up`."""
        with contextlib.suppress(FileNotFoundError):
            # One that is damaged is no token either, and is refused as such.
            return self.token_file.read_text(encoding="utf-8", errors="backslashreplace").strip()
        return None

    def keep_token(self, token: str) -> None:
        """Keep the administrator's token, for its owner's eyes alone."""
        part = self.path / f".token.{os.getpid()}"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(token + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.rename(self.token_file)

    def keep_cluster(self, document: Mapping[str, Any]) -> None:
        """Keep the cluster, a file's content, for the next start that names none."""
        self._keep(self.cluster_file, document)

    def keep_engine(self, name: str, options: Mapping[str, str]) -> None:
        """Keep what runs the jobs, for commands that would use the same nodes."""
        self._keep(self._engine_file, {"engine": name, "options": dict(options)})

    def engine(self) -> tuple[str, dict[str, str]] | None:
        """Return the name and the options of the engine of the last start; None before the first.

        Raises:
            InputError: what was kept is damaged: jobs may run there of which another engine knows
                nothing.
        """
        try:
            kept = json.loads(self._engine_file.read_bytes())
            return str(kept["engine"]), {str(k): str(v) for k, v in kept["options"].items()}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{self._engine_file}: which engine the last start was on cannot be read from it",
                hint="name it: `staves up --engine NAME`",
            ) from error

    def _keep(self, path: Path, document: Mapping[str, Any]) -> None:
        part = self.path / f".{path.stem}.{os.getpid()}"
        with part.open("w") as file:
            file.write(json.dumps(document))
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
