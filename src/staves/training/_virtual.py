"""Training on many unlike devices in one process, in virtual time.

Data, gradients and updates are real. Only the clock is virtual: it advances by a declared truth,
and the system that decides sees noisy measurements of it. All that a run decides by (planner,
measuring, noise scale, batch choice, learning-rate rule, order of the samples) is the code of real
jobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.utils.data import Dataset

from staves.convergence import RunningNoiseScale
from staves.errors import InputError, quoted
from staves.training._adaptation import Adaptation
from staves.training._arguments import number, positive_integer, seed_of
from staves.training._batch import Adaptive
from staves.training._indexed import IndexedSource
from staves.training._loader_options import allowed_options, check_data
from staves.training._sampler import Cut
from staves.training._stream import is_stream
from staves.training._virtual_clock import VirtualClock, checked_system, checked_truth
from staves.training._virtual_process import Loss, OneProcess
from staves.training._virtual_system import Decision, Learner, System, VirtualJob
from staves.training._virtual_truth import VirtualTruth


@dataclass(frozen=True, slots=True)
class VirtualStep:
    """One step that has been made.

    Args:
        number: from 0.
        epoch: the pass over the data that it belongs to, from 0.
        local_batches: samples of each device; fewer in the last step of a pass.
        micro_steps: passes in which each device takes them.
        loss: the mean over its samples, before the update.
        seconds: its virtual time, without the pause before it.
        pause_seconds: before it, for a change of the local batches.
        clock: virtual seconds since the start, at its end.
        progress: steps of the reference batch that all steps so far are worth.
        noise_scale: in samples; None where the batch is fixed, and while it is not known.
    """

    number: int
    epoch: int
    local_batches: tuple[int, ...]
    micro_steps: int
    loss: float
    seconds: float
    pause_seconds: float
    clock: float
    progress: float
    noise_scale: float | None

    @property
    def batch(self) -> int:
        """The total batch, in samples."""
        return sum(self.local_batches)


class VirtualTrainer:
    """A job on the devices of a truth, in this process.

    Models whose layers look at the whole local batch (BatchNorm) see each device's share by itself,
    as they do on real devices; their running statistics follow one share after the other.

    Args:
        model: bare.
        optimizer: of its parameters.
        loss: the mean loss of a batch: (model, what the data set's samples are collated to) ->
            scalar.
        dataset: with a length and indices.
        truth: how long everything takes.
        batch: the total batch in samples, fixed or adaptive.
        system: what decides the batch and its split; None: Staves (`Learner`).
        schedule: of learning rates; moved with progress, as a prepared one is.
        seed: of the order of the samples, of what is random in a step, and of the jitter.
        options: of the DataLoader: `shuffle`, `drop_last`, `collate_fn` and the like; without
            workers.

    Attributes:
        system: what decides.

    Raises:
        InputError: an argument is malformed, the model is wrapped or has nothing to train, the
            optimizer or the schedule is another's, or the data set has no length.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        loss: Loss,
        dataset: Dataset[Any],
        truth: VirtualTruth,
        *,
        batch: int | Adaptive,
        system: System | None = None,
        schedule: Any = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        adaptation = Adaptation(batch) if isinstance(batch, Adaptive) else None
        asked = batch.reference if isinstance(batch, Adaptive) else batch
        first = positive_integer("VirtualTrainer(batch)", asked)
        checked_truth("VirtualTrainer", truth)
        self.system = Learner() if system is None else checked_system("VirtualTrainer", system)
        source = _source(dataset, seed_of("VirtualTrainer(seed)", seed), first, options)
        self._adaptation = adaptation
        self._process = OneProcess(
            *(model, optimizer, schedule, loss), source=source, adaptation=adaptation, seed=seed
        )
        allowed = None if adaptation is None else adaptation.allowed(source.samples)
        job = VirtualJob.on(truth.model.devices, first, allowed)
        self._clock = VirtualClock(truth, self.system, job, seed=seed)

    @property
    def clock(self) -> float:
        """Virtual seconds so far."""
        return self._clock.seconds

    @property
    def progress(self) -> float:
        """Steps of the reference batch that the steps so far are worth; of a fixed one, steps."""
        adaptation = self._adaptation
        return float(self._process.steps) if adaptation is None else adaptation.progress

    @property
    def noise(self) -> RunningNoiseScale | None:
        """The averages behind the noise scale, which itself is bounded by what was tried; None
        where the batch is fixed."""
        return None if self._adaptation is None else self._adaptation.running

    def steps(
        self, count: int | None = None, *, progress: float | None = None
    ) -> Iterator[VirtualStep]:
        """Train, and yield each step that has been made; may be called again to go on.

        Args:
            count: how many steps; None: no end but the progress.
            progress: total progress at which to end, in steps of the reference batch; a schedule
                ends there, too.

        Raises:
            InputError: neither bound is given, one is not positive, or a pass over the data has no
                whole batch.
            TrainingError: the system decides what the devices cannot hold, or what is not allowed;
                or a loss is not finite.
        """
        hint = "steps(100), or steps(progress=100)"
        if count is None and progress is None:
            raise InputError("steps: without an end", hint=hint)
        if count is not None:
            positive_integer("steps(count)", count, hint)
        if progress is not None and not 0 < number("steps(progress)", progress, hint) < math.inf:
            raise InputError(
                f"steps(progress): {quoted(progress)} is not positive and finite", hint=hint
            )
        return self._steps(count, progress)

    def _steps(self, count: int | None, progress: float | None) -> Iterator[VirtualStep]:
        if self._adaptation is not None:
            self._adaptation.target = progress
        process, until = self._process, math.inf if count is None else self._process.steps + count
        while process.steps < until and not self._reached(progress):
            yield self._step()

    def _reached(self, progress: float | None) -> bool:
        if progress is None:
            return False
        adaptation = self._adaptation
        return self.progress >= progress if adaptation is None else adaptation.complete

    def _step(self) -> VirtualStep:
        step, adaptation, clock = self._process.steps, self._adaptation, self._clock
        decision, pause = clock.decide(None if adaptation is None else adaptation.acted_on)
        if adaptation is not None:
            adaptation.batch = decision.batch
        cut = self._cut(decision)
        loss = self._process.train(cut, decision.micro_steps)
        seconds = clock.advance(cut.local_batches)
        return VirtualStep(
            number=step,
            epoch=cut.epoch,
            local_batches=cut.local_batches,
            micro_steps=decision.micro_steps,
            loss=loss,
            seconds=seconds,
            pause_seconds=pause,
            clock=clock.seconds,
            progress=self.progress,
            noise_scale=None if adaptation is None else adaptation.noise_scale,
        )

    def _cut(self, decision: Decision) -> Cut:
        """Return the next step's place in the data, perhaps in a new pass over it."""
        cursor = self._process.source.cursor
        for _ in range(2):
            cut = cursor.cut(decision.local_batches, epoch=cursor.epoch, start=cursor.position)
            if cut is not None:
                return cut
            cursor.next_epoch()
        raise InputError(
            f"a pass over the data has no batch of {decision.batch} samples",
            hint="choose a batch no larger than the data set, or leave drop_last out",
        )


def _source(
    dataset: Dataset[Any], seed: int, least_batch: int, options: dict[str, Any]
) -> IndexedSource:
    """Return where the samples come from, all of them loaded in this process."""
    caller = "VirtualTrainer"
    check_data(caller, dataset, instead="VirtualTrainer(..., shuffle=..., collate_fn=...)")
    if is_stream(dataset):
        raise InputError(
            f"{caller}: the data set is a stream",
            hint="give one with a length and indices; list(stream), where it is small",
        )
    left = allowed_options(caller, options, batch="VirtualTrainer(batch=...)")
    if left.pop("num_workers", 0):
        raise InputError(
            f"{caller}: num_workers cannot be given",
            hint="leave it out: virtual time loads its samples in this process",
        )
    return IndexedSource(dataset, seed=seed, least_batch=least_batch, options=left, caller=caller)
