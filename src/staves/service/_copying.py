"""Copying trees: whole and on disk, or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from staves.errors import InputError, StavesError
from staves.service._ignore import IGNORE_FILE
from staves.service._tree import Entry

_CHUNK = 1 << 20


def copied(source: Path, to: Path, found: list[Entry], *, writable: bool) -> Iterator[Entry]:
    """Copy the entries, and yield each as it was when it was copied."""
    for entry in found:
        here = to / entry.path
        if entry.kind == "folder":
            here.mkdir()
            yield entry
        elif entry.kind == "link":
            here.symlink_to(entry.content)
            yield entry
        else:
            mode = (0o644 if writable else 0o444) | (0o111 if entry.executable else 0)
            content, size = _copy(source / entry.path, here, mode)
            yield replace(entry, content=content, size=size)
    for entry in found:
        if entry.kind == "folder":
            _sync(to / entry.path)
    _sync(to)


def _copy(source: Path, to: Path, mode: int) -> tuple[str, int]:
    """Copy a file, have it on disk, and return the SHA-256 and the size of what was copied."""
    digest, size = hashlib.sha256(), 0
    # What has become a link since it was listed may lead anywhere.
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as reader, to.open("xb") as writer:
        while chunk := reader.read(_CHUNK):
            digest.update(chunk)
            size += writer.write(chunk)
        os.fchmod(writer.fileno(), mode)
        writer.flush()
        os.fsync(writer.fileno())
    return digest.hexdigest(), size


def link(copy: Path, links: Mapping[Path, Path]) -> None:
    """Add symbolic links: by place in the copy, relative, what each leads to."""
    for place in sorted(links):
        if any((copy / parent).is_symlink() for parent in place.parents):
            continue  # within one that is linked already
        (copy / place).parent.mkdir(parents=True, exist_ok=True)
        (copy / place).symlink_to(links[place])


def write_synced(path: Path, text: bytes) -> None:
    """Write a new file, and have it on disk."""
    with path.open("xb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def place(part: Path, to: Path) -> None:
    """Give what is complete its name; nothing happens where somebody else was first."""
    _sync(part)
    try:
        part.rename(to)
    except OSError:  # a folder with something in it
        if not to.is_dir():
            raise
    _sync(to.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def os_errors(gone: str) -> Iterator[None]:
    """Say in one line what the system says; `gone` is the hint for what is not there any more."""
    try:
        yield
    except FileNotFoundError as error:
        raise StavesError(f"{error.filename}: is gone", hint=gone) from None
    except PermissionError as error:
        raise InputError(
            f"{error.filename}: {error.strerror}",
            hint=f"make it accessible; what the job does not need can be named in {IGNORE_FILE}",
        ) from None
    except OSError as error:
        raise StavesError(
            f"{error.filename or 'a snapshot'}: {error.strerror or error}",
            hint="free some space, or set STAVES_HOME to another folder",
        ) from None
