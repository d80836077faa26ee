"""A folder of runs, one file each: an interruption loses the run under way and no other."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from benchmarks.command import FULL
from benchmarks.training import frozen, sources
from staves.errors import InputError, StavesError

Run = dict[str, Any]

_ELSEWHERE = "move it away, or choose another folder: --results FOLDER"


class Results:
    """Runs that were made are read, others are made and kept.

    Args:
        folder: of the files; those of another declaration or of other code are made anew, and so
            are those that are damaged.
        again: names of systems whose runs are made anew.

    Attributes:
        cpu_seconds: that the runs taken so far have cost, whenever they were made.

    Raises:
        InputError: the folder cannot be written to.
        StavesError: the disk is full.
    """

    def __init__(self, folder: Path, again: tuple[str, ...] = ()) -> None:
        self._folder, self._again = folder, again
        self._made_by = {
            "another declaration": ("declaration", frozen.fingerprint()),
            "other code": ("code", sources.fingerprint()),
        }
        self._taken: set[Path] = set()
        self._told: set[str] = set()
        self.cpu_seconds = 0.0
        _check_writable(folder / "run.unfinished")

    def run(self, names: tuple[str, ...], make: Callable[[], Run]) -> Run:
        """Return the run of these names: workload, mix, seed, system or so.

        Raises:
            InputError: what stands in the place of its file cannot be read or replaced.
            StavesError: the disk is full; the runs before are kept.
        """
        path = self._folder.joinpath(*(_plain(name) for name in names)).with_suffix(".json")
        run = self._kept(path, names) or self._made(path, names, make)
        if path not in self._taken:
            self._taken.add(path)
            self.cpu_seconds += run["cpu_seconds"]
        return run

    def _kept(self, path: Path, names: tuple[str, ...]) -> Run | None:
        found = _read(path)
        if found is None or (names[-1] in self._again and path not in self._taken):
            return None
        try:
            kept = json.loads(found)
        except (ValueError, RecursionError):
            kept = None
        why = self._why_anew(path, kept)
        if why is None:
            return cast("Run", kept)
        if why not in self._told:
            self._told.add(why)
            print(f"benchmarks: {why}", file=sys.stderr, flush=True)
        return None

    def _why_anew(self, path: Path, kept: Any) -> str | None:
        """Return why a kept run is not taken; None where it is."""
        damaged = f"{path} is damaged: its run is made anew"
        if not isinstance(kept, dict) or "declaration" not in kept:
            return damaged
        for what, (key, value) in self._made_by.items():
            if kept.get(key) != value:
                return f"kept runs of {what} are made anew"
        return None if kept.pop("seal", None) == _seal(kept) else damaged

    def _made(self, path: Path, names: tuple[str, ...], make: Callable[[], Run]) -> Run:
        unfinished = path.with_suffix(".unfinished")
        _check_writable(unfinished)
        print(f"benchmarks: {', '.join(names)} ...", file=sys.stderr, flush=True)
        started = time.process_time()
        made = make() | dict(self._made_by.values())
        made["cpu_seconds"] = time.process_time() - started
        run: Run = json.loads(json.dumps(made))  # as it will be read
        with _written(unfinished, json.dumps(run | {"seal": _seal(run)})):
            unfinished.replace(path)
        return run


def _plain(name: str) -> str:
    return name.replace(":", "-").replace(" ", "-")


def _read(path: Path) -> bytes | None:
    """Return what is kept there; None where nothing is.

    Raises:
        InputError: it is no file, or cannot be read: it could not be replaced either.
    """
    try:
        if path.is_file():
            return path.read_bytes()
        if not path.exists():
            return None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", hint=_ELSEWHERE) from error
    raise InputError(f"{path} is no file, and a run is kept there", hint=_ELSEWHERE)


def _seal(run: Run) -> str:
    """Return the SHA-256 of a run: a file that was cut or edited is not what was kept."""
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()


def _check_writable(file: Path) -> None:
    """Find out before a run is made whether it can be kept: make the folder, and a file in it."""
    with _written(file, "{}"):
        pass


@contextlib.contextmanager
def _written(file: Path, text: str) -> Iterator[None]:
    """Write a file, and its folders, for the time being: where it is not moved, it is removed."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        yield
    except OSError as error:
        raise _not_written(file, error) from error
    finally:
        with contextlib.suppress(OSError):  # it was moved, or what failed has been told
            file.unlink()


def _not_written(file: Path, error: OSError) -> StavesError:
    if error.errno in FULL:
        return StavesError(
            f"{file.parent}: the disk is full; earlier runs are kept",
            hint="free some space and run this again",
        )
    return InputError(f"{file.parent} cannot be written to: {error.strerror}", hint=_ELSEWHERE)
