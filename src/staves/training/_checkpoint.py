"""Checkpoints: atomic, hashed, written beside the training, loaded at any number of ranks.

    DIR/step-00000120/state.pt        the state: plain containers and tensors, torch `weights_only`
    DIR/step-00000120/manifest.json   sizes and hashes; written last: without it there is none
    DIR/fence.json                    who may write here

A checkpoint is written under another name, synced, renamed; then its manifest likewise. A damaged
one is skipped, and that is said. A full disk keeps the old one, and training goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from staves.errors import StavesError, TrainingError

_MANIFEST, _STATE, _FENCE = "manifest.json", "state.pt", "fence.json"


class Checkpoints:
    """The checkpoints of one job in a folder.

    Args:
        folder: theirs alone.
        every: seconds from one to the next.
        keep: how many of the newest good ones stay.
        token: of this run and attempt; whoever claimed the folder last may write (rule 12).
        say: tells people something.
    """

    def __init__(
        self,
        folder: Path,
        *,
        every: float,
        keep: int,
        token: str,
        say: Callable[[str], None],
    ) -> None:
        self.folder, self._every, self._keep = folder, every, keep
        self._token, self._say = token, say
        self._last = time.monotonic()
        self._writer: threading.Thread | None = None
        self._overtaken = False
        self.written: int | None = None
        """The step of the newest that this process has whole on disk."""

    def claim(self) -> None:
        """Take the folder over: a stale process of an earlier attempt can write no more.

        Raises:
            StavesError: the folder cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write_whole(self.folder / _FENCE, json.dumps({"token": self._token}).encode())
        except OSError as error:
            raise StavesError(
                f"checkpoint: {self.folder}: {error.strerror or error}",
                hint="name a folder with space that you may write",
            ) from None

    def latest(self) -> dict[str, Any] | None:
        """Return the newest good state, or None; damaged ones are skipped, and that is said."""
        for path in self._steps():
            problem = _damage(path)
            if problem is not None:
                self._say(f"checkpoint {path.name} is skipped: {problem}")
                continue
            try:
                state: dict[str, Any] = torch.load(path / _STATE, weights_only=True)
            except Exception as error:  # torch raises many kinds for a file that it cannot read
                self._say(f"checkpoint {path.name} is skipped: {' '.join(str(error).split())}")
                continue
            return state
        return None

    def is_due(self) -> bool:
        """Whether it is time for the next one, and none is being written.

        Raises:
            TrainingError: another run or attempt has claimed the folder: what is trained from here
                on could not be kept (rule 12).
        """
        if self._overtaken:
            raise TrainingError(
                f"{self.folder} belongs to another run or attempt by now",
                hint="give each run a checkpoint folder of its own",
            )
        writing = self._writer is not None and self._writer.is_alive()
        return not writing and time.monotonic() - self._last >= self._every

    def save(self, state: dict[str, Any], *, step: int, wait: bool = False) -> None:
        """Copy the state now, and write it in the background (rule 15).

        A failed write is said, leaves the older checkpoints alone and ends nothing.

        Raises:
            TrainingError: a registered object's state holds something else than plain values.
        """
        self.join()
        self._last = time.monotonic()
        copy = _plain(state, "state")
        writer = threading.Thread(
            target=self._write, args=(copy, step), name="staves-checkpoint", daemon=True
        )
        self._writer = writer
        writer.start()
        if wait:
            self.join()

    def join(self) -> None:
        """Wait for the write under way."""
        if self._writer is not None:
            self._writer.join()

    def _write(self, state: dict[str, Any], step: int) -> None:
        final = self.folder / f"step-{step:08d}"
        part = self.folder / f".{final.name}.{os.getpid()}.part"
        try:
            self._check_fence()
            part.mkdir(parents=True, exist_ok=True)
            with (part / _STATE).open("wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            entry = {"bytes": (part / _STATE).stat().st_size, "sha256": _sha256(part / _STATE)}
            self._check_fence()
            if final.exists():  # trained again after a rollback
                shutil.rmtree(final)
            part.rename(final)
            _sync_folder(self.folder)
            manifest = {"step": step, "files": {_STATE: entry}}
            _write_whole(final / _MANIFEST, json.dumps(manifest, indent=1).encode())
            self.written = step
            self._prune()
        except (OSError, RuntimeError) as error:
            # torch's writer reports a full disk as a RuntimeError of its own.
            shutil.rmtree(part, ignore_errors=True)
            reason = error.strerror if isinstance(error, OSError) else None
            self._say(
                f"warning: checkpoint at step {step} was not written:"
                f" {reason or ' '.join(str(error).split())[:120]}; training goes on"
            )
        except StavesError as error:
            shutil.rmtree(part, ignore_errors=True)
            self._say(f"warning: checkpoint at step {step} was not written: {error}")
            self._overtaken = True

    def _check_fence(self) -> None:
        try:
            owner = json.loads((self.folder / _FENCE).read_bytes())["token"]
        except (OSError, ValueError, KeyError):
            owner = None
        if owner != self._token:
            raise StavesError(f"{self.folder} belongs to another attempt or run by now")

    def _steps(self) -> list[Path]:
        found = [path for path in self.folder.glob("step-*") if path.is_dir()]
        return sorted(found, key=lambda path: path.name, reverse=True)

    def _prune(self) -> None:
        good = [path for path in self._steps() if (path / _MANIFEST).exists()]
        for path in good[self._keep :]:
            shutil.rmtree(path, ignore_errors=True)


def _damage(path: Path) -> str | None:
    """Return what is wrong with a checkpoint, or None."""
    try:
        manifest = json.loads((path / _MANIFEST).read_bytes())
        files = dict(manifest["files"])
    except FileNotFoundError:
        return "it has no manifest (it was being written)"
    except (OSError, ValueError, KeyError, TypeError):
        return "its manifest is damaged"
    for name, entry in files.items():
        file = path / name
        try:
            if file.stat().st_size != entry["bytes"]:
                return f"{name} is truncated"
            if _sha256(file) != entry["sha256"]:
                return f"{name} has another hash than its manifest says"
        except OSError:
            return f"{name} is missing"
        except (KeyError, TypeError):
            return "its manifest is damaged"
    return None if _STATE in files else "its manifest names no state"


def _plain(value: Any, path: str) -> Any:
    """Return a copy in plain containers on the CPU.

    Raises:
        TrainingError: something that `torch.load(weights_only=True)` would refuse.
    """
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if isinstance(value, dict):
        return {_plain(k, path): _plain(v, f"{path}.{k}") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_plain(item, f"{path}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a numpy scalar
        return value.item()
    raise TrainingError(
        f"checkpoint: {path} holds a {type(value).__name__}",
        hint="state_dict() must return numbers, text, tensors, and lists and dictionaries of them",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_whole(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
