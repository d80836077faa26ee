"""What a rank tells as it trains: plans, steps, progress, epochs; to the supervisor, and to
TensorBoard."""

from __future__ import annotations

import time

from staves.training._adaptation import Adaptation
from staves.training._board import scalars
from staves.training._channel import Channel
from staves.training._checkpoint import Checkpoints
from staves.training._crew import Generation
from staves.training._figures import Figures
from staves.training._knowledge import Knowledge
from staves.training._loader import Loader
from staves.training._planner import Plan
from staves.training._sampler import Cut

_EVERY = 0.25  # seconds between two progress messages


class Teller:
    """Puts what happens into messages; without a supervisor only plans are shown."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._last = self._evaluating = 0.0
        self._knowledge: Knowledge | None = None
        self._kept: object = None  # what was last said of the total batch

    def formed(
        self, generation: Generation, *, step: int, loader: Loader | None, checkpoint: str | None
    ) -> None:
        """A generation has been formed and goes on at that step."""
        self._channel.send(
            "formed",
            rank=generation.rank,
            generation=generation.number,
            step=step,
            devices=[device.name for device, _ in generation.seats],
            length=0 if loader is None else loader.cursor.length,
            checkpoint=checkpoint,
        )

    def plan(
        self, plan: Plan, adaptation: Adaptation | None, *, step: int, changed: bool = True
    ) -> None:
        """A new plan is in use; or nothing has `changed`, and an adaptive batch says why.

        One device has no split that were worth telling.
        """
        if len(plan.local_batches) == 1 and adaptation is None:
            return
        if changed:
            text = f"step {step}: {plan.describe()}"
            if adaptation is not None and plan.stage == "optimal":
                text += f"; {adaptation.describe_noise()}"
            self._kept = None  # why it stays from here on is news
            self._channel.say(text, local_batches=list(plan.local_batches), stage=plan.stage)
        elif adaptation is not None and adaptation.adapts:
            self._why_kept(plan, adaptation, step)

    def _why_kept(self, plan: Plan, adaptation: Adaptation, step: int) -> None:
        """Say why the total batch stays, where that was not said yet."""
        why = f"batch stays {plan.batch}"
        kind: object = plan.batch
        if plan.verdict is not None and adaptation.noise_scale is not None:
            why, kind = plan.verdict.describe(), plan.verdict.kind
        if kind != self._kept:
            self._kept = kind
            self._channel.say(f"step {step}: {why}; {adaptation.describe_noise()}")

    def step(self, generation: Generation, step: int, cut: Cut) -> None:
        """A step has been committed: a row of the ledger."""
        self._channel.send_soon(
            "step",
            attempt=generation.attempt,
            generation=generation.number,
            step=step,
            epoch=cut.epoch,
            start=cut.start,
            local_batches=cut.local_batches,
        )

    def knowledge(self, knowledge: Knowledge, *, rank: int) -> None:
        """What rank 0 knows of the devices, where that has changed since it last told it."""
        if rank == 0 and knowledge is not self._knowledge:
            self._channel.send("knowledge", knowledge=knowledge.to_document())
        self._knowledge = knowledge if rank == 0 else None

    def saved(self, checkpoints: Checkpoints | None, *, step: int) -> None:
        """This rank has saved that step, or could not; nobody trains beyond it."""
        saved = checkpoints is not None and checkpoints.written == step
        self._channel.send("saved", step=step, saved=saved)

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
        self._channel.send(
            kind,
            epoch=figures.epochs,
            loss=loss,
            samples=samples,
            reached=reached,
            deadlines=figures.deadlines(),
        )

    def progress(
        self,
        figures: Figures,
        loader: Loader | None,
        plan: Plan,
        generation: int,
        *,
        now: bool,
        whole: bool,
    ) -> None:
        """How far training has come, now and then, or `now`: a rank's loss, or (`whole`) all."""
        since = time.monotonic() - self._last
        if since < _EVERY and not now:
            return
        self._last += since
        self.loss(figures, loader)
        if not whole:
            return
        loss, samples = figures.loss_so_far()
        even, source = figures.even(plan)
        if figures.board is not None:
            mean = loss / samples if samples else None
            figures.board.write(scalars(figures, plan, mean), step=figures.steps)
        self._channel.send_soon(
            "progress",
            step=figures.steps,
            epoch=figures.epochs,
            samples=figures.samples,
            steps_per_epoch=None if loader is None else loader.steps,
            loss=loss / samples if samples else None,
            step_seconds=figures.step_percentiles(last=200),
            generation=generation,
            total_samples=_total_samples(figures, loader, plan),
            position=None if loader is None else loader.cursor.position,
            length=None if loader is None else loader.samples,
            batch=plan.batch,
            goodput=figures.goodput(plan),
            **figures.adaptive(),
            local_batches=list(plan.local_batches),
            plan_step_seconds=figures.step_percentiles(last=200, of_plan=True),
            predicted_step_seconds=plan.predicted_seconds,
            even_step_seconds=even,
            even_step_source=source,
            pause_seconds=figures.pause_seconds,
            metrics=dict(figures.metrics),
        )


def _total_samples(figures: Figures, loader: Loader | None, plan: Plan) -> int | None:
    """Return the samples of all passes that the script asks for; None where nobody knows."""
    if loader is None or figures.epochs_wanted is None:
        return None
    adaptation, cursor = figures.adaptation, loader.cursor
    if adaptation is not None and adaptation.target is not None and adaptation.progress > 0:
        return round(figures.samples + adaptation.samples_left(figures.samples))
    if loader.samples is None:
        return None
    left_out = loader.samples % plan.batch if cursor.drop_last else 0
    return figures.epochs_wanted * (loader.samples - left_out)
