"""The ledger: which generation trained which samples at which step (rule 19).

Rows are JSON objects, one a line, in any order (the supervisor writes a generation when it is
committed; steps come in from the members as they commit them, so one member's row of a step may
come late):

* `{"kind": "attempt", "attempt", "step"}`: an attempt goes on from that step's checkpoint;
* `{"kind": "generation", "attempt", "generation", "members", "step"}`: it trains from that step on;
* `{"kind": "step", "attempt", "generation", "step", "epoch", "start", "local_batches"}`: step
  number `step`, counted from 0, took samples [start, start + sum(local_batches)) of the epoch;
* `{"kind": "finished", "attempt", "generation", "step"}`: a member of that generation came to the
  end of the training with that many steps committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from staves.membership._types import Commit

Row = Mapping[str, Any]

_FIELDS = {
    "attempt": ("attempt", "step"),
    "generation": ("attempt", "generation", "step"),
    "step": ("attempt", "generation", "step", "epoch", "start"),
    "finished": ("attempt", "generation", "step"),
}
_LISTS = {"generation": "members", "step": "local_batches"}


_NEVER = 2**63


def attempt_row(attempt: int, step: int) -> dict[str, Any]:
    """Return the row of an attempt that goes on from the checkpoint of `step` committed steps."""
    return {"kind": "attempt", "attempt": attempt, "step": step}


def generation_row(commit: Commit) -> dict[str, Any]:
    """Return the row of a commit, to be written before it is told."""
    return {
        "kind": "generation",
        "attempt": commit.attempt,
        "generation": commit.generation,
        "members": list(commit.members),
        "step": commit.step,
    }


def finished_row(attempt: int, generation: int, step: int) -> dict[str, Any]:
    """Return the row of a member that has trained to the end."""
    return {"kind": "finished", "attempt": attempt, "generation": generation, "step": step}


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def fault(row: object) -> str | None:
    """Return what is wrong with the form of a row, or None."""
    if not isinstance(row, Mapping):
        return "not an object"
    kind = row.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        return f"unknown kind {kind!r}"
    for name in _FIELDS[kind]:
        if not _whole(row.get(name)):
            return f"{name} is {row.get(name)!r}, not a whole number"
    name = _LISTS.get(kind, "")
    if name:
        values = row.get(name)
        if not isinstance(values, list | tuple) or not values or not all(map(_whole, values)):
            return f"{name} is {values!r}, not a list of whole numbers"
    return None


def _key(row: Row) -> tuple[str, int, int, int]:
    kind = row["kind"]
    step = row["step"] if kind == "step" else 0
    return (kind, row["attempt"], row.get("generation", 0), step)


class Ledger:
    """Collects rows in memory: the first of a (attempt, generation, step) is kept."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._seen: set[tuple[str, int, int, int]] = set()

    def add(self, row: Row) -> bool:
        """Take a row; whether it is new, and thus to be written.

        Raises:
            ValueError: it has not the form of a row.
        """
        if (wrong := fault(row)) is not None:
            raise ValueError(f"a bad ledger row: {wrong}")
        key = _key(row)
        if key in self._seen:
            return False
        self._seen.add(key)
        self.rows.append(dict(row))
        return True


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the surviving history, with the line that it was read from."""

    attempt: int
    generation: int
    step: int
    epoch: int
    start: int
    local_batches: tuple[int, ...]
    line: int

    @property
    def stop(self) -> int:
        """The cursor after it."""
        return self.start + sum(self.local_batches)


@dataclass(frozen=True, slots=True)
class History:
    """What survived: steps by number; how many were voided; what was wrong, one line each."""

    steps: tuple[Step, ...]
    voided: int
    problems: tuple[str, ...]


def _read(rows: Iterable[Row | str], problems: list[str]) -> list[tuple[int, Row]]:
    found: list[tuple[int, Row]] = []
    first: dict[tuple[str, int, int, int], tuple[int, Row]] = {}
    for line, raw in enumerate(rows, start=1):
        row: Any = raw
        if isinstance(raw, str):
            try:
                row = json.loads(raw)
            except ValueError:
                problems.append(f"line {line}: not JSON")
                continue
        if (wrong := fault(row)) is not None:
            problems.append(f"line {line}: {wrong}")
            continue
        before, known = first.setdefault(_key(row), (line, row))
        if before == line:
            found.append((line, row))
        elif known != row:
            problems.append(f"line {line}: contradicts line {before}")
    return found


def _thresholds(found: list[tuple[int, Row]]) -> dict[tuple[int, int], int]:
    """Return for each (attempt, generation) the step from which on its steps are void.

    A generation that nobody finished in, after one in which somebody did, counts for nothing: the
    finished member has the whole training, and what the others trained again is void.
    """
    ends: dict[int, int] = {}
    limits: dict[int, int] = {}
    by_attempt: dict[int, dict[int, int]] = {}
    for _, row in found:
        attempt = row["attempt"]
        starts = by_attempt.setdefault(attempt, {})
        if row["kind"] == "finished":
            ends[attempt] = max(ends.get(attempt, 0), row["generation"])
        elif row["kind"] == "generation":
            starts[row["generation"]] = row["step"]
        elif row["kind"] == "attempt":
            limits[attempt] = row["step"]
    thresholds: dict[tuple[int, int], int] = {}
    newer = _NEVER
    for attempt in sorted(by_attempt, reverse=True):
        void = newer
        for generation in sorted(by_attempt[attempt], reverse=True):
            beyond = generation > ends.get(attempt, _NEVER)
            thresholds[attempt, generation] = 0 if beyond else void
            if not beyond:
                void = min(void, by_attempt[attempt][generation])
        newer = min(newer, limits.get(attempt, _NEVER))
    return thresholds


def replay(rows: Iterable[Row | str]) -> History:
    """Return the surviving history of these rows (mappings, or lines of JSON).

    A generation voids the steps from its own on that older generations of its attempt trained: a
    lost member may have committed one step more, which is trained again. An attempt voids the
    steps from its own on that older attempts trained.
    """
    problems: list[str] = []
    found = _read(rows, problems)
    thresholds = _thresholds(found)
    starts = {r["attempt"]: r["step"] for _, r in found if r["kind"] == "attempt"}
    homes = {(r["attempt"], r["generation"]): r for _, r in found if r["kind"] == "generation"}
    oldest = min((r["attempt"] for _, r in found), default=0)
    unsaid = {r["attempt"] for _, r in found} - starts.keys() - {oldest}
    problems += [f"attempt {a} does not say from which step it goes on" for a in sorted(unsaid)]
    kept: dict[int, Step] = {}
    voided = 0
    for line, row in found:
        if row["kind"] != "step":
            continue
        place, number = (row["attempt"], row["generation"]), row["step"]
        if place not in homes:
            problems.append(f"line {line}: generation {place[1]} was never committed")
            continue
        if number >= thresholds[place]:
            voided += 1
            continue
        if number < homes[place]["step"]:
            problems.append(f"line {line}: step {number} is older than its generation")
        if len(row["local_batches"]) != len(homes[place]["members"]):
            problems.append(f"line {line}: its local batches do not fit its generation's members")
        local_batches = tuple(row["local_batches"])
        step = Step(*place, number, row["epoch"], row["start"], local_batches, line)
        other = kept.setdefault(number, step)
        if other is not step:
            problems.append(f"line {line}: step {number} was trained before, in line {other.line}")
    numbers = sorted(kept)
    expected = range(starts.get(oldest, 0), numbers[-1] + 1) if numbers else range(0)
    problems += [f"step {number} is missing" for number in expected if number not in kept]
    return History(tuple(kept[n] for n in numbers), voided, tuple(problems))


def stands(rows: Iterable[Row | str], attempt: int, generation: int, step: int) -> bool:
    """Whether a state of `step` committed steps, saved in that generation, is still history.

    A member may save a step that it alone had committed; if it is lost, the step is trained again,
    perhaps with another batch. Or it may be lost before the step's row has come in. A checkpoint
    from which an attempt begins must stand, else samples are lost or doubled.
    """
    rows = list(rows)
    found = _read(rows, [])
    if step > _thresholds(found).get((attempt, generation), 0):
        return False
    return step == 0 or any(s.step == step - 1 for s in replay(rows).steps)
