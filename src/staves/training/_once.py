"""`run.once`: something that one process of a machine does while the others wait."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

_calls = 0


def once(work: Callable[[], object]) -> None:
    """Call `work` in the first process of this job and machine to come here; later ones skip it.

    The others wait until it is done. Where it raises, the next process tries again. Calls are
    matched by their order in the script.
    """
    global _calls
    _calls += 1
    folder = _folder()
    if folder is None:
        work()
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"once-{_calls}.lock").open("a+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given up by the kernel if its holder dies
        done = folder / f"once-{_calls}.done"
        if not done.exists():
            work()
            done.touch()


def _folder() -> Path | None:
    """Return the folder that this job's processes on this machine share; None for a single one."""
    run = os.environ.get("STAVES_RUN")
    if run:
        return Path(run) / "once"
    if os.environ.get("TORCHELASTIC_RUN_ID") or os.environ.get("MASTER_PORT"):
        job = os.environ.get("TORCHELASTIC_RUN_ID", ""), os.environ.get("MASTER_PORT", "")
        parent = os.getppid()  # a later job may have the same name and port
        return Path(tempfile.gettempdir()) / f"staves-once-{'-'.join(job)}-{parent}"
    return None
