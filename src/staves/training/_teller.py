"""What a rank tells the supervisor as it trains: plans, steps, progress, epochs."""

from __future__ import annotations

import time

from staves.training._channel import Channel
from staves.training._crew import Generation
from staves.training._figures import Figures
from staves.training._loader import Loader
from staves.training._planner import Plan
from staves.training._sampler import Cut

_EVERY = 0.25  # seconds between two progress messages


class Teller:
    """Puts what happens into messages; without a supervisor only plans are shown."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._last = self._evaluating = 0.0

    def formed(
        self, generation: Generation, *, step: int, loader: Loader | None, checkpoint: str | None
    ) -> None:
        """A generation has been formed and goes on at that step."""
        self._channel.send(
            "formed",
            rank=generation.rank,
            generation=generation.number,
            step=step,
            length=loader.cursor.length if loader else 0,
            checkpoint=checkpoint,
        )

    def plan(self, plan: Plan, *, step: int) -> None:
        """A new split is in use."""
        text = f"step {step}: {plan.describe()}"
        self._channel.say(text, local_batches=list(plan.local_batches))

    def step(self, generation: Generation, step: int, cut: Cut) -> None:
        """A step has been committed: a row of the ledger."""
        self._channel.send_soon(
            "step",
            attempt=generation.attempt,
            generation=generation.number,
            step=step,
            epoch=cut.epoch,
            start=cut.start,
            local_batches=list(cut.local_batches),
        )

    def evaluating(self) -> None:
        """An evaluation comes forward."""
        now = time.monotonic()
        if now - self._evaluating >= _EVERY:
            self._evaluating = now
            self._channel.send("evaluating")

    def loss(self, figures: Figures, loader: Loader | None, kind: str = "loss") -> None:
        """This rank's part of the epoch's loss so far, and how far into the epoch training is."""
        loss, samples = figures.loss_so_far()
        reached = samples if loader is None else loader.cursor.position
        self._channel.send(kind, epoch=figures.epochs, loss=loss, samples=samples, reached=reached)

    def progress(self, figures: Figures, loader: Loader | None, *, whole: bool) -> None:
        """Now and then, how far training has come: the rank's loss, or (`whole`) all of it."""
        now = time.monotonic()
        if now - self._last < _EVERY:
            return
        self._last = now
        self.loss(figures, loader)
        if not whole:
            return
        loss, samples = figures.loss_so_far()
        self._channel.send_soon(
            "progress",
            step=figures.steps,
            epoch=figures.epochs,
            samples=figures.samples,
            steps_per_epoch=None if loader is None else len(loader),
            loss=loss / samples if samples else None,
            step_seconds=figures.step_percentiles(last=200),
        )
