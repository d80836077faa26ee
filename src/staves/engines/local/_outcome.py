"""How a run ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    `failed` is the worker that failed first, as (rank, device name), with its exit `status`
    (negative: a signal) and the script's `traceback`; `reason` says why membership could not go on;
    `refusal` is an input error of ours that ended it instead. `reports` are the figures of the
    finished members.
    """

    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    failed: tuple[int, str] | None = None
    status: int = 0
    traceback: str = ""
    log: Path | None = None
    reason: str | None = None
    refusal: dict[str, Any] | None = None
    stopped_by: int | None = None

    @property
    def ok(self) -> bool:
        """Whether every rank ended well."""
        return not (self.failed or self.refusal or self.stopped_by or self.reason)


def deserted(device: str, step: int, reports: dict[int, dict[str, Any]]) -> Outcome | None:
    """A collective failed on `device` in that step, and nobody was lost: say who went, if known."""
    steps = [report["steps"] for report in reports.values() if report["steps"] <= step]
    if not steps:
        return None
    return Outcome(
        reports,
        reason=f"a rank ended its training after {max(steps)} steps, while {device} goes on:"
        " every rank must leave run.epochs at the same step",
    )
