"""The ledger of a run as its supervisor keeps it: one row for each generation and each step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from staves.engines.local._claim import CheckpointClaim
from staves.engines.local._folder import LedgerFile, RunFolder, read_ledger
from staves.errors import StavesError
from staves.membership import Commit

_STEP = ("attempt", "generation", "step", "epoch", "start", "local_batches")


def job_ledger(folder: RunFolder) -> tuple[Path, int | None, list[dict[str, Any]]]:
    """Return a run's ledger: where it is, the samples of its data set (None: a stream), its rows.

    Raises:
        StavesError: the run has committed nothing yet, or the ledger is damaged.
    """
    path = folder.path / "ledger.jsonl"
    kept = folder.path / "ledger.json"
    if kept.exists():
        path = Path(folder.read("ledger.json")["path"])
    elif not path.exists():
        raise StavesError(f"{folder.name}: it trained no step", hint="there is nothing to prove")
    rows = read_ledger(path)
    lengths = [row["length"] for row in rows if row.get("kind") == "data"]
    if not lengths:
        raise StavesError(f"{path}: nothing has been committed")
    return path, lengths[-1], [row for row in rows if row.get("kind") != "data"]


class History:
    """Writes the ledger from what the workers tell.

    Every member tells each step that it committed; the first to say so is believed, the others
    repeat it. A generation's row stands before its steps, and says from which step it goes on: what
    an earlier generation committed from there on is trained again (a lost rank may have been one
    step ahead). The first generation of an attempt learns that from the rank that has the state.

    Args:
        folder: of the run; the ledger is there, unless the job has a checkpoint folder: then it is
            in that, and goes on through all attempts.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._claim = CheckpointClaim(folder.name)
        self._path = folder.path / "ledger.jsonl"
        self._file: LedgerFile | None = None
        self._attempts_before = 0
        self._fresh: Commit | None = None
        self._waiting: list[dict[str, Any]] = []
        self._seen: set[tuple[int, int]] = set()

    def claim(self, checkpoint: str) -> None:
        """Have a checkpoint folder, and the ledger in it, for this run alone.

        Raises:
            InputError: another run is using it.
            StavesError: it cannot be written.
        """
        self._claim.take(Path(checkpoint))

    def committed(self, commit: Commit) -> None:
        """A generation is in force."""
        if commit.source is None or self._fresh is not None:
            # In the second case the attempt's first one broke before it was formed.
            self._fresh, self._waiting = commit, []
        else:
            self._generation(commit, commit.step)

    def formed(self, message: dict[str, Any]) -> None:
        """Rank 0 has formed a generation, at that step."""
        fresh = self._fresh
        if fresh is None or message["generation"] != fresh.generation:
            return
        if self._file is None:
            self._open(message["checkpoint"], message["length"])
        self._fresh = None
        attempt = fresh.attempt + self._attempts_before
        if attempt > 1:  # what an earlier one trained from there on is trained again
            assert self._file is not None
            self._file.append({"kind": "attempt", "attempt": attempt, "step": message["step"]})
        self._generation(fresh, message["step"])
        waiting, self._waiting = self._waiting, []
        for row in waiting:
            self.stepped(row)

    def stepped(self, message: dict[str, Any]) -> None:
        """A member has committed a step."""
        if self._file is None or self._fresh is not None:
            self._waiting.append(message)
            return
        key = message["generation"], message["step"]
        if key not in self._seen:
            self._seen.add(key)
            row = {name: message[name] for name in _STEP}
            row["attempt"] += self._attempts_before
            self._file.append({"kind": "step", **row})

    def close(self) -> None:
        """Close the ledger."""
        if self._file is not None:
            self._file.close()
        self._claim.close()

    def _generation(self, commit: Commit, step: int) -> None:
        assert self._file is not None
        self._seen = {key for key in self._seen if key[0] >= commit.generation - 2}
        row = {
            "kind": "generation",
            "attempt": commit.attempt + self._attempts_before,
            "generation": commit.generation,
            "members": list(commit.members),
            "step": step,
        }
        self._file.append(row, sync=True)

    def _open(self, checkpoint: str | None, length: int | None) -> None:
        if checkpoint is not None:
            self.claim(checkpoint)
        path = self._path if checkpoint is None else Path(checkpoint) / "ledger.jsonl"
        if path.exists():
            rows = read_ledger(path)
            self._attempts_before = max((row.get("attempt", 0) for row in rows), default=0)
        self._folder.write("ledger.json", {"path": str(path)})
        self._file = LedgerFile(path)
        self._file.append({"kind": "data", "length": length, "run": str(self._path.parent)})
