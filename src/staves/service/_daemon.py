"""`staves up`: start a controller that stands on its own, and wait until it is well."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx

from staves.errors import InputError, StavesError
from staves.service._facade import Document
from staves.service._folder import ServiceFolder
from staves.service._leftovers import MARK
from staves.service._settings import Settings

_LONGEST_LOG = 10 << 20  # bytes; a longer one makes room at the next start
_UNWELL = 10.0  # seconds that a controller has to become well, once it answers
_ROOM = 1 << 18  # bytes free on a disk that is as good as full
_LAST_WORDS = 1 << 14  # bytes of it that are looked at


def up(settings: Settings, *, patience: float = 120.0) -> Document:
    """Start a controller, detached, and return its url, token_file, data_dir and pid.

    A controller that has died is followed by this one, which takes its data and jobs over.

    Args:
        settings: what it is started with.
        patience: seconds until it must be well.

    Raises:
        InputError: a service runs already, or the controller refuses its settings.
        StavesError: it ended, or was not well in time and has been ended.
    """
    folder = ServiceFolder(settings.home)
    folder.create()
    if folder.state in ("up", "starting"):
        raise folder.runs_already()
    begin = _make_room(folder.log_file)
    process = _start(settings, folder)
    try:
        url = _wait(folder, process, patience, begin)
    except BaseException:  # Ctrl-C as well: nothing half-started stays
        process.kill()
        process.wait()
        raise
    process.returncode = 0  # it is not ours to wait for any more
    return about(folder, url, process.pid)


def about(folder: ServiceFolder, url: str, pid: int) -> Document:
    """Return what `staves up --json` prints."""
    return {
        "url": url,
        "token_file": str(folder.token_file),
        "data_dir": str(folder.home),
        "pid": pid,
    }


def _start(settings: Settings, folder: ServiceFolder) -> subprocess.Popen[bytes]:
    # Another service may be named there, as where a job of it starts this one.
    others = ("STAVES_URL", "STAVES_TOKEN", MARK)
    environ = {name: value for name, value in os.environ.items() if name not in others}
    environ["STAVES_HOME"] = str(settings.home)
    environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # decisions are small; its threads only spin
    if paths := environ.get("PYTHONPATH"):  # it stands in another folder than we do
        absolute = (str(Path(path).absolute()) for path in paths.split(os.pathsep) if path)
        environ["PYTHONPATH"] = os.pathsep.join(absolute)
    with folder.log_file.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "staves.service", *settings.arguments()],
            env=environ,
            cwd=folder.path,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _wait(
    folder: ServiceFolder, process: subprocess.Popen[bytes], patience: float, begin: int
) -> str:
    """Return the URL of the controller that `process` is, once it is well."""
    deadline = time.monotonic() + patience
    # Not through a proxy: it is on this machine.
    with httpx.Client(trust_env=False, timeout=5.0) as http:
        while True:
            status = process.poll()
            if status is not None:
                raise _ended(folder, status, begin)
            address = folder.address()
            now = time.monotonic()
            if address is not None and address[1] == process.pid:
                well = _well(http, address[0])
                if well:
                    return address[0]
                if well is False:  # it may become so in a moment; with a full disk it does not
                    deadline = min(deadline, now + _UNWELL)
            if now > deadline:
                wrong = "" if address is None else _wrong(http, address[0], folder.token())
                raise StavesError(
                    f"the service is not well{wrong}", hint=f"its log: {folder.log_file}"
                )
            time.sleep(0.05)


def _well(http: httpx.Client, url: str) -> bool | None:
    """Return what it says of itself; None where it does not answer."""
    try:
        return http.get(f"{url}/healthz").is_success
    except httpx.TransportError:
        return None


def _wrong(http: httpx.Client, url: str, token: str | None) -> str:
    """Return what is wrong, as the end of a sentence; nothing where it does not say."""
    try:
        health = http.get(f"{url}/api/v1/health", headers={"Authorization": f"Bearer {token}"})
        return f": {health.json()['wrong']}" if health.is_success else ""
    except httpx.TransportError:
        return ""


def _ended(folder: ServiceFolder, status: int, begin: int) -> StavesError:
    with folder.log_file.open("rb") as log:
        log.seek(max(begin, log.seek(0, os.SEEK_END) - _LAST_WORDS))
        words = log.read().decode(errors="replace").strip()
    if shutil.disk_usage(folder.home).free < _ROOM:
        return StavesError(
            f"the disk of {folder.home} is full", hint="make room there, then `staves up` again"
        )
    last = words.splitlines()[-1] if words else f"exit status {status}"
    if last.startswith("staves: "):  # it has said what and why itself
        kind = InputError if status == InputError.exit_code else StavesError
        return kind(last.removeprefix("staves: "))
    return StavesError(
        f"the service's controller ended at once: {last}", hint=f"its log: {folder.log_file}"
    )


def _make_room(log: Path) -> int:
    """Return where the next controller's words begin in the log."""
    try:
        size = log.stat().st_size
    except FileNotFoundError:
        return 0
    if size <= _LONGEST_LOG:
        return size
    log.replace(log.with_suffix(".log.1"))
    return 0
