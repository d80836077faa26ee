"""How a run ended, and what it came to."""

from __future__ import annotations

import signal
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from staves.engines.local._deadlines import Deadlines
from staves.engines.local._logs import LogFolder
from staves.engines.local._losses import EpochLosses
from staves.engines.local._worker import Worker


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    `failed` is the worker that failed first, as (rank, device name), with its exit `status`
    (negative: a signal) and the script's `traceback`; `parted`: it was lost with its part of a
    sharded model; `reason` says why membership could not go on;
    `refusal` is an input error of ours that ended it instead. `reports` are the figures of the
    finished members. `told` says what became of it where it was told to stop, or could not do
    without a device; `stopped_by` is the signal that told it.
    """

    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    failed: tuple[int, str] | None = None
    status: int = 0
    traceback: str = ""
    log: Path | None = None
    parted: bool = False
    reason: str | None = None
    refusal: dict[str, Any] | None = None
    stopped_by: int | None = None
    told: Literal["saved", "stopped", "unplaced"] | None = None

    @classmethod
    def nobody_left(cls, reports: dict[int, dict[str, Any]]) -> Outcome:
        """Return how a run has ended that trained, and of which nobody is left who has finished."""
        return cls(reports, told="stopped", reason="no worker is left, and none has finished")

    @classmethod
    def without_device(
        cls, reports: dict[int, dict[str, Any]], reason: str, *, begun: bool
    ) -> Outcome:
        """Return how a run has ended that needs a device which it does not get."""
        return cls(reports, told="stopped" if begun else "unplaced", reason=reason)

    @classmethod
    def given_up(
        cls, reports: dict[int, dict[str, Any]], reason: str, missing: Collection[str]
    ) -> Outcome:
        """Return how a run has ended whose membership cannot go on.

        It has not failed where the cluster is short of devices: it can be run again on others.
        """
        return cls(reports, told="stopped" if missing else None, reason=reason)

    @classmethod
    def untrained(cls, reports: dict[int, dict[str, Any]], name: str) -> Outcome:
        """Return how a run has ended of which others train, and this device never has."""
        return cls(reports, reason=f"{name} ended without training, while others wait for it")

    @property
    def ok(self) -> bool:
        """Whether every rank ended well."""
        return not (self.failed or self.refusal or self.stopped_by or self.reason or self.told)

    @property
    def history(self) -> dict[str, Any] | None:
        """The last rank 0's history, as `run.report()` has it; None where nothing has finished."""
        if not self.reports:
            return None
        history: dict[str, Any] = self.reports[min(self.reports)]["history"]
        return history

    def failure(self) -> str | None:
        """Say on one line which worker failed and how; None where none did."""
        if self.failed is None:
            return None
        rank, name = self.failed
        if self.status == 0:
            return f"ended on rank {rank} ({name}) before its training was finished"
        failed = f"failed on rank {rank} ({name}) with {_how(self.status)}"
        if self.parted:
            failed += ", and a sharded model cannot go on without a rank: run it again, from its"
            failed += " checkpoint"
        return failed

    @property
    def advice(self) -> str | None:
        """What helps against the failure; None where nothing is known to help.

        Memory that runs out in the prepared model or in the backward pass never comes to this: the
        samples at once are lowered. What the script computes between the two is not seen.
        """
        error = self.traceback.rstrip().rpartition("\n")[2]
        if "OutOfMemoryError" not in error and "out of memory" not in error:
            return None
        return (
            "memory ran out between forward and backward: compute the loss in the model's forward,"
            " where Staves lowers the samples at once"
        )


def summarise(outcome: Outcome, losses: EpochLosses, deadlines: Deadlines) -> dict[str, Any]:
    """Return the run's figures: those of its last rank 0, with all ranks' losses and deadlines.

    The history is left out: `Outcome.history` has it.
    """
    if not outcome.reports:
        # A script that never made a run, or never trained, has nothing to report.
        return {
            "steps": 0, "samples": 0, "epochs": 0, "step_seconds": None,
            "predicted_step_seconds": None, "even_step_seconds": None, "local_batches": [],
            "rescales": 0, "emulated": False,
        }  # fmt: skip
    figures = dict(next(iter(sorted(outcome.reports.items())))[1])
    first, last = losses.first, losses.last
    figures["loss"] = {
        "first": losses.mean(first),
        "last": losses.mean(last),
        "covered": {"first": losses.covered(first), "last": losses.covered(last)},
    }
    del figures["deadlines"], figures["history"]
    if late := deadlines.figures():
        figures |= {"emulated": True, **late}
    return figures


def _how(status: int) -> str:
    """Say how a process ended."""
    if status > 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:  # real-time signals have no name
        return f"signal {-status}"


def failure_of(
    worker: Worker, rank: int, status: int, reports: dict[int, dict[str, Any]], logs: LogFolder
) -> Outcome:
    """Return how a run has ended whose `worker` failed first; `status` as of its process."""
    if worker.gone_with is not None:
        reason = f"{worker.device.name} was lost: {worker.gone_with}"
        return Outcome(reports, told="stopped", reason=reason)
    name = f"rank-{worker.first_rank}"
    return Outcome(
        reports,
        failed=(rank, worker.device.name),
        status=status,
        parted=worker.fixed and status < 0,
        traceback=logs.tail(name, 40),
        log=logs.path(name),
        refusal=worker.refusal,
    )


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
