"""The training run: what `staves.init` returns, and the four changed lines of a script.

Every rank runs the same script. All decisions and all collectives of ours happen in one place,
where the loader is asked for the next batch: a step boundary, which every rank passes alike.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.utils.data import Dataset

from staves.errors import InputError, TrainingError
from staves.training._batch import positive_integer
from staves.training._channel import Channel
from staves.training._environment import Environment
from staves.training._figures import Figures
from staves.training._group import Groups, form
from staves.training._loader import Loader, Ticket, place_on
from staves.training._model import PreparedModel
from staves.training._optimizer import PreparedOptimizer, PreparedSchedule
from staves.training._pacing import Pacer
from staves.training._planner import SETTLE, WARM_UP, Plan, Planner, check_split
from staves.training._reducer import WeightedReducer
from staves.training._refusal import report_input_errors
from staves.training._step import Stepper
from staves.training._timing import CudaClock, HostClock, StepRecord, StepTimer

Split = Literal["auto", "even"] | Sequence[int] | Callable[[int], Sequence[int]]
"""How a batch is split: see `staves.init`."""

_MESSAGE_EVERY = 0.25  # seconds between two progress messages
_RECORDS_KEPT = 400  # measured steps a rank keeps for its fits


class Run:
    """One training run on this rank. Made by `staves.init`."""

    def __init__(
        self,
        environment: Environment,
        device: torch.device,
        channel: Channel,
        *,
        batch: int,
        reference_batch: int,
        seed: int,
        split: Split,
        max_local_batch: int | None,
    ) -> None:
        self.device = device
        self.seed = seed
        self._environment = environment
        self._reference_batch = reference_batch
        self._channel = channel
        self._groups: Groups | None = form(environment, device)
        report_input_errors(channel)  # forming a group puts another hook before ours
        profile = environment.device.profile
        self._pacer = None if profile is None else Pacer(profile)
        clock = CudaClock() if device.type == "cuda" else HostClock()
        self._timer = StepTimer(clock)
        self._figures = Figures(self._pacer)
        self._stepper = Stepper(self._timer, self._pacer, self._figures, self._total)
        self._records: list[StepRecord] = []
        self._split_of_step = split if callable(split) else None
        self._planner = self._first_planner(batch, max_local_batch, split)
        self._plan_since: int | None = None
        self._loader: Loader | None = None
        self._in_epoch = False
        self._last_message = 0.0
        self._say_plan()

    # -- what a script reads

    @property
    def rank(self) -> int:
        """This process's place in the job, 0 to world_size - 1."""
        return self._environment.rank

    @property
    def world_size(self) -> int:
        """How many processes train together."""
        return self._environment.world_size

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0: the one that prints and writes files."""
        return self.rank == 0

    @property
    def plan(self) -> Plan:
        """The split in use."""
        return self._planner.plan

    @property
    def committed_steps(self) -> int:
        """How many steps have been committed."""
        return self._figures.steps

    @property
    def boundary(self) -> bool:
        """Whether the batch under way is its step's last: the optimizer acts after it."""
        return self._stepper.boundary

    # -- the changed lines

    def prepare(
        self,
        *objects: Any,
        bucket_cap_mb: float | None = None,
        static_graph: bool = False,
        find_unused_parameters: bool = False,
    ) -> Any:
        """Prepare a model, its optimizers and schedules; return as many values as were given.

        The model moves to this rank's device and starts from rank 0's parameters. None passes
        through. The options are those of `DistributedDataParallel`.

        Raises:
            InputError: something that is none of them, or a second model.
        """
        prepared = tuple(self._prepare_one(each) for each in objects)
        model = self._stepper.model
        if model is not None and self._groups is not None and self._stepper.reducer is None:
            trainable = [p for p in model.module.parameters() if p.requires_grad]
            reducer = WeightedReducer(
                self._groups.gradients,
                self._timer,
                self._pacer,
                elements=sum(p.numel() for p in trainable),
                device=self.device,
            )
            options: dict[str, Any] = {
                "static_graph": static_graph,
                "find_unused_parameters": find_unused_parameters,
            }
            if bucket_cap_mb is not None:
                options["bucket_cap_mb"] = bucket_cap_mb
            model.distribute(self._groups.gradients, reducer, options)
            self._stepper.reducer = reducer
        return prepared[0] if len(prepared) == 1 else prepared

    def loader(self, dataset: Dataset[Any], **options: Any) -> Loader:
        """Return the loader of the training data; `options` are those of torch's DataLoader.

        It yields this rank's share of each batch, on this rank's device. Every sample comes once an
        epoch, in one order, whatever the split.

        Raises:
            InputError: a second loader, an empty data set, or an option that Staves decides.
        """
        if self._loader is not None:
            raise InputError(
                "run.loader: this run has its training loader already",
                hint="evaluate with an ordinary DataLoader",
            )
        self._loader = Loader(
            dataset,
            self,
            rank=self.rank,
            seed=self.seed,
            reference_batch=self._reference_batch,
            place=place_on(self.device),
            options=options,
        )
        model = self._stepper.model
        if model is not None and model.has_batch_norm():
            self._loader.stand_in_samples(2)
        return self._loader

    def epochs(self, count: int) -> Iterator[int]:
        """Iterate over `count` passes over the data, and finish the run after the last."""
        positive_integer("run.epochs", count)
        finished = False
        try:
            for epoch in range(count):
                self._in_epoch = True
                yield epoch
                self._leave_epoch()
            finished = True
        except GeneratorExit:  # the script breaks off: what was trained counts
            if not self._stepper.over:
                self._stepper.drop()
            self._settle()
            self._figures.clear_loss()
            if self._loader is not None:  # the rest of this pass is left out
                self._loader.cursor.next_epoch()
            finished = True
            raise
        finally:
            self._in_epoch = False
            if finished:
                self._finish()

    def backward(self, loss: torch.Tensor, weight: float | None = None) -> None:
        """Run the backward pass of this batch's mean loss, and reduce the gradients.

        Args:
            loss: the mean over this batch's samples; a scalar.
            weight: how much the batch counts where that is not its number of samples, such as its
                tokens; then `loss` is the mean over that weight, and the step's gradient the mean
                over all of it.

        Raises:
            TrainingError: outside the loop over the prepared loader, or called twice for a batch.
        """
        self._stepper.backward(loss, weight)

    def log(self, **metrics: Any) -> None:
        """Report metrics of this epoch, beside the mean training loss over all ranks."""
        self._settle()
        values = {name: float(value) for name, value in metrics.items()}
        self._figures.metrics |= values
        if not self.is_main:
            return
        epoch, loss = self._figures.epochs, self._figures.epoch_loss
        if self._channel.connected:
            self._channel.send("log", epoch=epoch, loss=loss, metrics=values)
            return
        shown = [] if loss is None else [f"loss {loss:.4f}"]
        shown += [f"{name} {value:.4g}" for name, value in values.items()]
        print(f"epoch {epoch}: " + ", ".join(shown), flush=True)

    @staticmethod
    def unwrap(model: nn.Module) -> nn.Module:
        """Return the user's own module: for evaluation and for saving."""
        return model.module if isinstance(model, PreparedModel) else model

    def report(self) -> dict[str, Any]:
        """Return the figures so far (those of `staves run --json`, as this rank knows them)."""
        self._settle()
        return self._figures.report(self.plan, emulated=self._pacer is not None)

    # -- what the loader asks (a `LoaderHost`)

    def plan_for(self, step: int) -> Plan:
        """Return the plan of that step, as far as it is decided."""
        plan = self.plan
        if self._split_of_step is None:
            return plan
        split = tuple(int(b) for b in self._split_of_step(step))
        check_split(split, plan.batch, self.world_size)
        return Plan(plan.number, "fixed", split, self._planner.micro_steps_of(split))

    def before_batch(self) -> None:
        """Commit the step that is done, decide what is due, and be ready for the next."""
        if not self._in_epoch:
            raise TrainingError(
                "the loader was used outside of run.epochs",
                hint="for epoch in run.epochs(n): for inputs, targets in batches: ...",
            )
        self._settle()
        if self._planner.due(self.committed_steps):
            self._decide()
        self._stepper.start_clock()

    def begin(self, ticket: Ticket) -> None:
        """The batch of `ticket` is about to be used."""
        self._stepper.begin(ticket)

    def end_of_epoch(self) -> None:
        """Sum the epoch's loss over all ranks (they all pass here), and pause the clock."""
        loss, samples = self._figures.loss_so_far()
        if self._groups is None:
            self._figures.end_epoch(loss, samples)
        else:
            self._figures.end_epoch(*self._groups.sum(loss, samples))
        self._timer.pause()

    # -- inside

    def _prepare_one(self, each: Any) -> Any:
        if each is None or isinstance(each, (PreparedModel, PreparedOptimizer, PreparedSchedule)):
            return each
        if isinstance(each, nn.Module):
            if self._stepper.model is not None:
                raise InputError(
                    "run.prepare: a second model",
                    hint="put the models into one nn.Module and prepare that",
                )
            self._stepper.model = PreparedModel(each.to(self.device), self._stepper.may_clear)
            return self._stepper.model
        if isinstance(each, Optimizer):
            self._stepper.optimizers += 1
            return PreparedOptimizer(each, self._stepper)
        if isinstance(each, (LRScheduler, ReduceLROnPlateau)):
            return PreparedSchedule(each, self._stepper)
        raise InputError(
            f"run.prepare: a {type(each).__name__} is no model, optimizer or schedule",
            hint="prepare(model, optimizer, schedule); data goes to run.loader",
        )

    def _first_planner(self, batch: int, max_local_batch: int | None, split: Split) -> Planner:
        """Agree with the other ranks on devices and caps, and make the first plan."""
        device = self._environment.device
        caps = [max_local_batch, device.profile.max_batch if device.profile else None]
        known = [cap for cap in caps if cap is not None]
        everyone = [(device, min(known) if known else None)]
        if self._groups is not None:
            gathered = self._groups.gather(everyone[0], self.world_size, self.rank)
            everyone = self._groups.broadcast(gathered)
        fixed: Sequence[int] | Literal["even"] | None = None
        if split == "even" or callable(split):
            fixed = "even"
        elif not isinstance(split, str):
            fixed = split
        return Planner(batch, [d for d, _ in everyone], [cap for _, cap in everyone], fixed)

    def _total(self, value: float) -> float:
        return value if self._groups is None else self._groups.sum(value)[0]

    def _settle(self) -> None:
        """Commit the step under way, if it is over: cursor, counts and measurements."""
        ticket = self._stepper.take()
        if ticket is None:
            return
        assert self._loader is not None
        self._loader.cursor.commit(ticket.cut)
        figures, step = self._figures, self.committed_steps
        record = self._timer.read(step=step, plan=self.plan.number, samples=ticket.local_batch)
        if record is not None and ticket.cut.batch == self.plan.batch:
            since = self._plan_since
            settled = step >= (WARM_UP if since is None else since + SETTLE)
            figures.measured(record, self.plan, settled=settled)
            if settled:
                self._records.append(record)
                del self._records[:-_RECORDS_KEPT]
        figures.steps += 1
        figures.samples += ticket.cut.batch
        self._say_progress()

    def _decide(self) -> None:
        """Gather what was measured, decide on rank 0, and tell all ranks."""
        if self._groups is None:
            return
        gathered = self._groups.gather(self._records, self.world_size, self.rank)
        decision = self._planner.decide(gathered) if gathered is not None else None
        plan, model = self._groups.broadcast(decision)
        if self._planner.adopt(plan, self.committed_steps, model):
            self._plan_since = self.committed_steps
            if self._loader is not None:
                self._loader.reissue()
            self._say_plan()
        self._timer.pause()

    def _leave_epoch(self) -> None:
        if not self._stepper.over:  # the script left a batch half done, on purpose: leave it out
            self._stepper.drop()
        self._settle()
        loader = self._loader
        if loader is None:
            return
        if loader.unfinished():  # the script broke off: the rest of this pass is left out
            self._figures.clear_loss()
            self._timer.pause()
            loader.cursor.next_epoch()
            loader.reissue()
        else:
            loader.cursor.next_epoch()

    def _finish(self) -> None:
        if not self._stepper.over:
            self._stepper.drop()
        self._settle()
        if self._loader is not None:
            self._loader.close()
        self._figures.close_plan()
        report = self._figures.report(self.plan, emulated=self._pacer is not None)
        self._channel.send("finished", rank=self.rank, report=report)

    def _say_plan(self) -> None:
        if self.is_main and self.world_size > 1:
            plan = self.plan
            self.say(
                f"step {self.committed_steps}: {plan.describe()}",
                local_batches=list(plan.local_batches),
            )

    def say(self, text: str, **fields: Any) -> None:
        """Tell people something: through the supervisor, or on standard error without one."""
        if self._channel.connected:
            self._channel.send("say", text=text, **fields)
        else:
            print(f"staves: {text}", file=sys.stderr, flush=True)

    def _say_progress(self) -> None:
        now = time.monotonic()
        if not self.is_main or now - self._last_message < _MESSAGE_EVERY:
            return
        self._last_message = now
        loss, samples = self._figures.loss_so_far()
        self._channel.send(
            "progress",
            step=self.committed_steps,
            epoch=self._figures.epochs,
            samples=self._figures.samples,
            steps_per_epoch=None if self._loader is None else len(self._loader),
            loss=loss / samples if samples else None,
            step_seconds=self._figures.step_percentiles(),
        )
