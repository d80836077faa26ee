"""One run at a time in a checkpoint folder (rule 12): its supervisor holds a lock there."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from staves.errors import InputError, StavesError, printable

_LOCK = "in-use"


class CheckpointClaim:
    """Locks checkpoint folders for as long as this process lives, or until it is closed.

    A run that another one overtakes could go on for hours and keep nothing: the second is refused
    before it starts anything. Locks on network file systems are the file system's own matter; what
    a stale host writes is kept out by the fencing token.

    Args:
        name: of the run, for whom it may keep out.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._held: dict[Path, int] = {}

    def take(self, folder: Path) -> None:
        """Lock the folder, which is made if need be; again does nothing.

        Raises:
            InputError: another run is using it.
            StavesError: it cannot be written.
        """
        folder = folder.absolute()
        if folder in self._held:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StavesError(
                f"checkpoint: {folder}: {error.strerror or error}",
                hint="name a folder with space that you may write",
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = printable(os.pread(descriptor, 256, 0).decode(errors="replace")) or "a run"
            os.close(descriptor)
            raise InputError(
                f"checkpoint: {folder} is in use by {owner}",
                hint="give each run a folder of its own, or wait for that one",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, self._name.encode(), 0)
        self._held[folder] = descriptor

    def close(self) -> None:
        """Let go of all folders."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()
