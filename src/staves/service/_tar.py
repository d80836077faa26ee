"""A snapshot on the wire: an uncompressed tar of files, folders and links that stay inside."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path
from typing import BinaryIO

from staves.errors import InputError, quoted

_LONGEST_NAME = 1024  # characters; past the system's own limit, links resolve to nonsense


def write_tar(folder: Path, file: BinaryIO) -> None:
    """Write what `folder` holds to `file`."""
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, arcname=str(path.relative_to(folder)), recursive=False)


def read_tar(file: BinaryIO, folder: Path, *, most_bytes: int, most_members: int) -> None:
    """Write the members of a tar into `folder`, which is empty.

    Raises:
        InputError: it is no tar, it is too large, or a member is of a kind that no snapshot holds,
            stands there twice, or leads outside. What has been written by then stays.
    """
    size = members = 0
    links = []
    try:
        with tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                members += 1
                size += max(member.size, 0)
                if size > most_bytes or members > most_members:
                    raise InputError(
                        f"the snapshot is too large: more than {most_bytes} bytes, "
                        f"or {most_members} files",
                        hint="leave out data with the ignore file",
                    )
                path = folder / _inside(member)
                if member.issym():
                    links.append((member, path))
                else:
                    _write(archive, member, path)
    except tarfile.TarError as error:
        raise InputError(f"the snapshot is no tar: {error}") from None
    _link(links, folder)


def _inside(member: tarfile.TarInfo) -> Path:
    """Return the member's path within the folder."""
    path = Path(member.name)
    if path.is_absolute() or ".." in path.parts or "\0" in member.name:
        raise _refused(member, "the path leads outside")
    if len(member.name) > _LONGEST_NAME or len(member.linkname) > _LONGEST_NAME:
        raise _refused(member, "the path is too long")
    return path


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Write a file or a folder. No link stands in the folder yet: nothing leads outside."""
    try:
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            return
        content = archive.extractfile(member) if member.isreg() else None
        if content is None:
            raise _refused(member, "it is neither file, folder nor link")
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        mode = 0o755 if member.mode & 0o100 else 0o644
        with os.fdopen(os.open(path, flags, mode), "wb") as target:
            shutil.copyfileobj(content, target, 1 << 20)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise _refused(member, "something else has its place") from None


def _link(links: list[tuple[tarfile.TarInfo, Path]], folder: Path) -> None:
    """Make the links, and look where they lead once all are there: one may pass through others."""
    for member, path in links:
        try:  # before the first link: no folder may come to stand behind one
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise _refused(member, "something else has its place") from None
    for member, path in links:
        try:
            path.symlink_to(member.linkname)
        except FileExistsError:
            raise _refused(member, "something else has its place") from None
    root = os.path.realpath(folder)
    for member, path in links:
        if os.path.commonpath([root, os.path.realpath(path)]) != root or member.linkname[:1] == "/":
            raise _refused(member, "the link leads outside")


def _refused(member: tarfile.TarInfo, why: str) -> InputError:
    return InputError(
        f"the snapshot may not hold {quoted(member.name)}: {why}",
        hint="paths and links stay inside the folder of the job",
    )
