"""What a run counts and reports: steps, samples, loss, step times, missed deadlines."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from staves.training._adaptation import Adaptation
from staves.training._board import Board
from staves.training._history import History, Row, Setting
from staves.training._pacing import Pacer
from staves.training._planner import Plan
from staves.training._timing import StepRecord

_OF_THE_JOB = (
    "steps",
    "samples",
    "epochs",
    "epoch_loss",
    "first_epoch_loss",
    "even_seconds",
    "even_devices",
    "even_batch",
    "metrics",
    "pauses",
    "generations",
)

KEPT = 20_000
"""Step times kept of the plan in use: enough for any percentile."""
_LOSSES = 16
"""Losses that are summed at once: between two steps each small operation costs many times what it
does in a row."""


class Figures:
    """Figures of one rank, and what it knows of the whole job.

    `board` is where rank 0 writes them as well.
    """

    def __init__(self, pacer: Pacer | None) -> None:
        self.steps = 0
        self.samples = 0
        self.epochs = 0
        self.epochs_wanted: int | None = None
        self.epoch_loss: float | None = None
        self.first_epoch_loss: float | None = None
        self.even_seconds: float | None = None
        self.even_devices: list[str] = []
        self.even_batch: int | None = None  # None: before the batch could change
        self.metrics: dict[str, float] = {}
        self.pauses: list[float] = []
        self.generations = 0
        self.adaptation: Adaptation | None = None
        self.history = History()
        self.board: Board | None = None
        self._setting: Setting | None = None
        self._pacer = pacer
        self._step_seconds: deque[float] = deque(maxlen=KEPT)
        self._step_seconds_before: list[float] = []
        self._plan: int | None = None
        self._stage = ""
        self._batch = 0
        self._devices: list[str] = []
        self._pauses_before = 0
        self._losses: list[tuple[torch.Tensor, int]] = []
        self._loss: torch.Tensor | None = None
        self._loss_samples = 0

    def begin_generation(self, devices: Sequence[str]) -> None:
        """These devices train from here on: no step time of others is told as theirs."""
        self.close_plan()
        self._devices, self._plan, self._stage = list(devices), None, ""
        self._setting = None
        if self.even_devices != self._devices:
            self.even_seconds = None
        self._pauses_before = len(self.pauses)

    @property
    def devices(self) -> list[str]:
        """The names of the devices in use, by rank."""
        return self._devices

    @property
    def pause_seconds(self) -> float | None:
        """What the change to the generation in force cost; None before its first step is done."""
        return self.pauses[-1] if len(self.pauses) > self._pauses_before else None

    def measured(self, record: StepRecord, plan: Plan, *, settled: bool) -> None:
        """Take in a step of the plan in use; `settled` is False for the first after a change."""
        if plan.number != self._plan:
            self.close_plan()
            self._plan = plan.number
            self._stage, self._batch = plan.stage, plan.batch
            if self._step_seconds:
                self._step_seconds_before = list(self._step_seconds)
            self._step_seconds.clear()
            self._setting = None
        if settled:
            self._step_seconds.append(record.step_seconds)
        if self._setting is None:
            self._setting = Setting(
                tuple(self._devices),
                plan.local_batches,
                plan.stage,
                plan.predicted_seconds,
                plan.even_seconds,
                plan.idle_share,
            )
        self.history.add(
            Row(
                record.step,
                1,
                self._setting,
                measured=int(settled),
                step_seconds=record.step_seconds if settled else None,
                noise_scale=self.adaptation.noise_scale if self.adaptation else None,
                goodput=(
                    self.adaptation.goodput(plan.batch, record.step_seconds)
                    if self.adaptation and settled
                    else None
                ),
            )
        )

    def close_plan(self) -> None:
        """The plan in use ends here: what the even split cost is kept for the comparison."""
        if self._stage == "even" and self._step_seconds:
            self.even_seconds = float(np.median(self._step_seconds))
            self.even_batch = self._batch
            self.even_devices = self._devices

    def add_loss(self, loss: torch.Tensor, samples: int) -> None:
        """Add the mean loss of `samples` samples; no device is waited for."""
        self._losses.append((loss, samples))
        self._loss_samples += samples
        if len(self._losses) >= _LOSSES:
            self._sum_losses()

    def _sum_losses(self) -> None:
        for loss, samples in self._losses:
            weighted = loss.detach() * samples
            self._loss = weighted if self._loss is None else self._loss + weighted
        self._losses.clear()

    def loss_so_far(self) -> tuple[float, int]:
        """Return this epoch's (sum of losses, samples) on this rank; waits for the device."""
        self._sum_losses()
        return 0.0 if self._loss is None else float(self._loss), self._loss_samples

    def clear_loss(self) -> None:
        """Begin the loss of a new epoch."""
        self._losses.clear()
        self._loss, self._loss_samples = None, 0

    def end_epoch(self, loss_sum: float, samples: float) -> None:
        """Take in the whole job's loss of an epoch."""
        self.epochs += 1
        self.clear_loss()
        if samples > 0:
            self.epoch_loss = loss_sum / samples
            if self.first_epoch_loss is None:
                self.first_epoch_loss = self.epoch_loss

    def step_percentiles(
        self, last: int | None = None, *, of_plan: bool = False
    ) -> dict[str, float] | None:
        """Return the median and 95th percentile of the step time under the plan in use, in seconds.

        Of its `last` steps; of the plan before, where this one has no settled step yet, unless only
        those `of_plan` are asked for.
        """
        if of_plan and self._plan is None:
            return None
        times = list(self._step_seconds or ([] if of_plan else self._step_seconds_before))
        times = times[-last:] if last else times
        if not times:
            return None
        p50, p95 = np.percentile(np.asarray(times), [50, 95])
        return {"p50": float(p50), "p95": float(p95)}

    def even(self, plan: Plan | None) -> tuple[float | None, str]:
        """Return the step time of an even split over the devices in use, and where it is from."""
        alike = plan is None or self.even_batch in (None, plan.batch)
        if self.even_seconds is not None and alike:
            return self.even_seconds, "measured"
        return None if plan is None else plan.even_seconds, "predicted"

    def goodput(self, plan: Plan) -> float | None:
        """Return the reference samples a second under the plan in use, as its steps are measured
        and by the noise scale as it stands; None where either is not known."""
        step = self.step_percentiles(last=200, of_plan=True) if plan.number == self._plan else None
        if self.adaptation is None or step is None:
            return None
        return self.adaptation.goodput(plan.batch, step["p50"])

    def to_document(self) -> dict[str, Any]:
        """Return what belongs to the job and not to this rank, as plain values."""
        own = {name: getattr(self, name) for name in _OF_THE_JOB}
        return own | {"history": self.history.to_document()}

    def load_document(self, document: dict[str, Any]) -> None:
        """Take over what `to_document` wrote; this rank's own part of an epoch's loss stays."""
        if document["epochs"] != self.epochs:
            self.clear_loss()
        for name in _OF_THE_JOB:
            setattr(self, name, document.get(name, getattr(self, name)))
        if "history" in document:  # checkpoints of earlier versions have none
            self.history = History.from_document(document["history"])

    def deadlines(self) -> dict[str, Any] | None:
        """Return the emulated device's steps and how many missed a deadline; None for a real
        one."""
        if self._pacer is None:
            return None
        return {"steps": self._pacer.steps, "missed": self._pacer.missed}

    def report(self, plan: Plan | None, *, emulated: bool) -> dict[str, Any]:
        """Return the figures as `staves run --json` prints them, and the history."""
        deadlines = self.deadlines()
        even, source = self.even(plan)
        return {
            "steps": self.steps,
            "samples": self.samples,
            "epochs": self.epochs,
            "step_seconds": self.step_percentiles(),
            "predicted_step_seconds": None if plan is None else plan.predicted_seconds,
            "even_step_seconds": even,
            "even_step_source": source,
            "local_batches": [] if plan is None else list(plan.local_batches),
            "rescales": max(0, self.generations - 1),
            "pauses_seconds": list(self.pauses),
            "emulated": emulated,
            "metrics": self.metrics,
            "loss": {"first": self.first_epoch_loss, "last": self.epoch_loss},
            "deadlines": deadlines,
            "history": self.history.to_document(),
            "batch": None if plan is None else plan.batch,
            "goodput": None if plan is None else self.goodput(plan),
            **self.adaptive(),
        }

    def adaptive(self) -> dict[str, Any]:
        """Return how an adaptive batch stands; None for all of it where the batch is fixed.

        The noise scale that is acted on (None: not known yet) and the 95 % interval of its estimate
        (its upper end None: there is none), in samples; the factor on the learning rates for a
        whole batch; progress in steps of the reference batch.
        """
        adaptation = self.adaptation
        if adaptation is None:
            return dict.fromkeys(
                ("noise_scale", "noise_scale_interval", "learning_rate_factor", "reference_steps")
            )
        low, high = adaptation.running.interval()
        return {
            "noise_scale": adaptation.noise_scale,
            "noise_scale_interval": [low, high if math.isfinite(high) else None],
            "learning_rate_factor": adaptation.factor,
            "reference_steps": adaptation.progress,
        }
