"""Where commands write: what cannot be written is refused before anything is computed for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from staves.errors import InputError


def check_file(option: str, path: Path, *, sources: Iterable[Path] = ()) -> None:
    """Refuse a file that could not be written, or that the same command reads.

    Args:
        option: that names it, for the message.
        path: may be absent; its folder may not.
        sources: what the command reads; those that are absent are passed over.

    Raises:
        InputError: it is a folder, its folder is absent or may not be written, or it is a source.
    """
    target = _resolved(option, path)  # a link is followed, as writing follows it
    if target.is_dir():
        raise InputError(f"{option}: {path} is a folder", hint="name a file in it")
    if target.exists():
        if any(source.exists() and source.samefile(target) for source in sources):
            raise InputError(
                f"{option}: {path} is what is read, and would be lost", hint="name another file"
            )
        if not os.access(target, os.W_OK):
            raise InputError(f"{option}: {path} may not be written", hint="name another file")
        return
    if not target.parent.is_dir():
        raise InputError(
            f"{option}: {path.parent} is not a folder", hint="make it first, or name another"
        )
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(
            f"{option}: {path.parent} may not be written", hint="name a file in another folder"
        )


def check_folder(option: str, path: Path) -> None:
    """Refuse a folder that could not be made or written.

    Args:
        option: that names it, for the message.
        path: may be absent, and folders above it too.

    Raises:
        InputError: it, or what stands in its place above, is no folder, or may not be written.
    """
    above = _resolved(option, path)
    while not above.exists():
        above = above.parent
    what = path if path.exists() else above
    if not above.is_dir():
        raise InputError(f"{option}: {what} is not a folder", hint="name another")
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"{option}: {what} may not be written", hint="name another folder")


def _resolved(option: str, path: Path) -> Path:
    """Return the path without links, refusing names that no file can have."""
    target = Path(os.path.realpath(path))
    try:
        target.lstat()
    except OSError as error:
        # Absent, or below a file: which of them is found out part by part.
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise InputError(f"{option}: {path}: {error.strerror}", hint="name another") from None
    return target
