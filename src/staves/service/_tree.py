"""What a working directory holds, entry by entry."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from staves.errors import InputError
from staves.service._ignore import IGNORE_FILE

_NEVER = {".git", "__pycache__"}
_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, folder or symbolic link.

    Args:
        path: relative to the working directory, with `/`.
        kind: what it is.
        executable: whether its owner may execute it; files only.
        size: bytes; files only.
        content: of a file the SHA-256 of its bytes ("" before they are read), of a link its target,
            relative to the folder it is in.
    """

    path: str
    kind: Literal["file", "folder", "link"]
    executable: bool = False
    size: int = 0
    content: str = ""


def entries(root: Path, left_out: Callable[[str, bool], bool]) -> Iterator[Entry]:
    """Yield all that is in `root`, each folder before what is in it, in the order of names.

    Args:
        root: resolved.
        left_out: says, of a relative path and of whether it is a folder, whether to leave it out.

    Raises:
        InputError: a link leads out of `root`, or something is neither file, folder nor link.
        OSError: something cannot be read.
    """
    yield from _inside(root, "", left_out)


def _inside(root: Path, folder: str, left_out: Callable[[str, bool], bool]) -> Iterator[Entry]:
    with os.scandir(root / folder) as scan:
        found = sorted(scan, key=lambda entry: entry.name)
    for entry in found:
        path = f"{folder}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in _NEVER or left_out(path, is_folder):
            continue
        if entry.is_symlink():
            yield Entry(path, "link", content=_target(root, path))
        elif is_folder:
            if not (root / path / _VIRTUAL_ENVIRONMENT).exists():
                yield Entry(path, "folder")
                yield from _inside(root, f"{path}/", left_out)
        else:
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                raise InputError(
                    f"{root / path}: is neither a file nor a folder: it cannot be copied",
                    hint=f"name it in {IGNORE_FILE}",
                )
            yield Entry(path, "file", bool(status.st_mode & stat.S_IXUSR), status.st_size)


def _target(root: Path, path: str) -> str:
    """Return where a link leads, relative to its folder: the copy is to lead within the copy."""
    link = root / path
    # Of the place itself, not of what it leads to in turn: that is another link's matter.
    target = Path(os.path.normpath(link.parent.joinpath(link.readlink())))
    for place in (target, link.resolve()):
        if not place.is_relative_to(root):
            raise InputError(
                f"{link}: leads out of the working directory, to {place}",
                hint=f"list it under data: in the job file, or name it in {IGNORE_FILE}",
            )
    return os.path.relpath(target, link.parent)
