"""Snapshots: a job runs what was there when it was submitted, however often it is resumed.

HOME/snapshots/HASH/manifest.json    every entry with its hash; HASH is the hash of this file
HOME/snapshots/HASH/files/           the files, read-only; equal trees are kept once
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from staves.errors import InputError, StavesError
from staves.service._copying import copied, link, os_errors, place, write_synced
from staves.service._ignore import IGNORE_FILE, Ignore
from staves.service._spec import JobSpec
from staves.service._tree import Entry, entries

_MOST_ENTRIES = 100_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot: the hash it is kept by, and how many files and bytes it has."""

    hash: str
    files: int
    bytes: int


def pack_job(spec: JobSpec, home: Path) -> Snapshot:
    """Take the snapshot of a job's working directory. Raises as `pack` does."""
    leave_out = (*spec.data, *spec.outputs, *([spec.checkpoint] if spec.checkpoint else []))
    return pack(spec.workdir, home, leave_out=leave_out, limit=spec.max_snapshot)


def materialise_job(spec: JobSpec, home: Path, name: str, to: Path) -> None:
    """Make the job's own copy of its snapshot; raises, and may be repeated, as `materialise`.

    Data, outputs and checkpoints within the working directory are links to the originals there. The
    folders of outputs and checkpoints are made. What lies outside of the working directory is where
    it is for the copy, too.
    """
    written = [*spec.outputs, *([spec.checkpoint] if spec.checkpoint else [])]
    links = {
        path.relative_to(spec.workdir): path
        for path in (*spec.data, *written)
        if path.is_relative_to(spec.workdir)
    }
    with os_errors("submit the job again"):
        for folder in written:
            folder.mkdir(parents=True, exist_ok=True)
    materialise(home, name, to, links=links)


def pack(
    workdir: Path, home: Path, *, leave_out: Collection[Path] = (), limit: int = 200 * 10**6
) -> Snapshot:
    """Copy a working directory to HOME/snapshots, and have it on disk before returning.

    Left out are HOME, `.git`, `__pycache__`, virtual environments, `leave_out`, and what the ignore
    file names.

    Args:
        workdir: the working directory.
        home: STAVES_HOME.
        leave_out: absolute paths.
        limit: bytes that it may have.

    Raises:
        InputError: it is larger, all of it is left out, a link leads out of it, or it holds what
            cannot be copied.
        StavesError: it changed meanwhile, or cannot be written.
    """
    root = workdir.resolve()
    with os_errors("it was there just now: submit again"):
        found = _listed(root, home, leave_out, limit)
        part = _new_part(home / "snapshots")
    try:
        with os_errors("it was there just now: submit again"):
            packed = list(copied(root, part / "files", found, writable=False))
            text = _manifest(packed)
            name = hashlib.sha256(text).hexdigest()
            write_synced(part / "manifest.json", text)
            place(part, home / "snapshots" / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    files = [entry for entry in packed if entry.kind == "file"]
    return Snapshot(name, len(files), sum(entry.size for entry in files))


def materialise(
    home: Path, name: str, to: Path, *, links: Mapping[Path, Path] | None = None
) -> None:
    """Make a private, writable copy of a snapshot at `to`; does nothing where that is done already.

    The copy comes into being whole: whoever is interrupted may call again.

    Args:
        home: STAVES_HOME.
        name: the snapshot's hash.
        to: the folder to make.
        links: symbolic links to add: by place in the copy, relative, what each leads to.

    Raises:
        StavesError: the snapshot is gone or damaged, or the copy cannot be written.
    """
    if to.exists():
        return
    snapshot = home / "snapshots" / name
    part = to.with_name(f".{to.name}.part")
    with os_errors("submit the job again"):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        expected = _read_manifest(snapshot)
        copies = copied(snapshot / "files", part, expected, writable=True)
        for entry, there in zip(expected, copies, strict=True):
            if there != entry:
                raise StavesError(
                    f"{snapshot}: is damaged: {entry.path} is not what was submitted",
                    hint="submit the job again",
                )
        link(part, links or {})
        place(part, to)


def receive(home: Path, name: str, folder: Path) -> None:
    """Keep the snapshot that `folder` holds, which came from elsewhere, as `name`.

    Raises:
        InputError: what it holds is not that snapshot.
        StavesError: it cannot be written.
    """
    part = _new_part(home / "snapshots")
    try:
        try:
            text = (folder / "manifest.json").read_bytes()
            expected = [Entry(*fields) for fields in json.loads(text)]
            whole = hashlib.sha256(text).hexdigest() == name
            copies = copied(folder / "files", part / "files", expected, writable=False)
            whole = whole and list(copies) == expected
        except (OSError, ValueError, TypeError):
            whole = False
        if not whole:
            raise InputError(f"the snapshot is not {name}", hint="pack and upload it again")
        with os_errors("upload it again"):
            write_synced(part / "manifest.json", text)
            place(part, home / "snapshots" / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _listed(root: Path, home: Path, leave_out: Collection[Path], limit: int) -> list[Entry]:
    """Return what is to be copied; InputError where that is too much."""
    apart = _within(root, [home, *leave_out])
    if "." in apart:
        raise InputError(
            f"{root}: the whole working directory is left out",
            hint="name a folder in it, or run the job from another one",
        )
    ignored = _ignore_file(root)

    def left_out(path: str, folder: bool) -> bool:
        return path in apart or ignored(path, folder=folder)

    found: list[Entry] = []
    by_top: dict[str, int] = {}
    for entry in entries(root, left_out):
        found.append(entry)
        top = entry.path.partition("/")[0]
        by_top[top] = by_top.get(top, 0) + entry.size
        if len(found) > _MOST_ENTRIES:  # somebody's whole home, say: that is enough to refuse it
            break
    total = sum(by_top.values())
    if total > limit or len(found) > _MOST_ENTRIES:
        largest = sorted(by_top.items(), key=lambda item: -item[1])[:3]
        named = ", ".join(f"{top} ({_megabytes(size)})" for top, size in largest)
        raise InputError(
            f"{root}: {len(found)} files and folders of {_megabytes(total)} are too much for a"
            f" snapshot: {_MOST_ENTRIES} of at most {_megabytes(limit)}; largest: {named}",
            hint=f"name what the job does not need in {IGNORE_FILE}, list what it only reads under"
            " data:, or raise snapshot.max in the job file",
        )
    return found


def _within(root: Path, paths: Collection[Path]) -> set[str]:
    """Return those of the paths that are in `root`, relative to it, by either of their names."""
    named = {p for path in paths for p in (path, path.parent.resolve() / path.name)}
    named |= {path.resolve() for path in paths}
    return {path.relative_to(root).as_posix() for path in named if path.is_relative_to(root)}


def _ignore_file(root: Path) -> Ignore:
    path = root / IGNORE_FILE
    if not path.exists():
        return Ignore(())
    return Ignore(path.read_text(errors="surrogateescape").splitlines())


def _new_part(snapshots: Path) -> Path:
    """Return a folder for a snapshot in the making; those of dead processes are removed."""
    try:
        snapshots.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StavesError(
            f"{error.filename}: {error.strerror}",
            hint="set STAVES_HOME to a folder that you may write",
        ) from None
    for old in snapshots.glob(".part-*"):
        if not Path(f"/proc/{old.name.split('-')[1]}").exists():
            shutil.rmtree(old, ignore_errors=True)
    part = snapshots / f".part-{os.getpid()}-{os.urandom(4).hex()}"
    part.mkdir()
    (part / "files").mkdir()
    return part


def _manifest(found: list[Entry]) -> bytes:
    return json.dumps([astuple(entry) for entry in found], indent=0).encode()


def _read_manifest(snapshot: Path) -> list[Entry]:
    try:
        text = (snapshot / "manifest.json").read_bytes()
    except FileNotFoundError:
        raise StavesError(f"{snapshot}: is gone", hint="submit the job again") from None
    if hashlib.sha256(text).hexdigest() != snapshot.name:
        raise StavesError(
            f"{snapshot}: is damaged: so is its manifest", hint="submit the job again"
        )
    return [Entry(*fields) for fields in json.loads(text)]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
