"""The training run: what `staves.init` returns, and the four changed lines of a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.utils.data import Dataset

from staves.errors import InputError
from staves.training._arguments import positive_integer
from staves.training._fingerprint import fingerprint
from staves.training._loader import Loader, place_on
from staves.training._losses import learn_losses
from staves.training._model import PreparedModel, check_bare
from staves.training._once import once
from staves.training._optimizer import PreparedOptimizer, PreparedSchedule, unscheduled
from staves.training._planner import Plan
from staves.training._scaler import PreparedScaler
from staves.training._session import Session

Item = TypeVar("Item")


class Run:
    """One training run on this rank. Made by `staves.init`.

    Every rank runs the same script. Ranks may come and go while it runs: a rank that joins runs the
    script from its top and receives the training state at `run.epochs`, so nothing before that line
    may wait for other ranks.
    """

    def __init__(self, session: Session, *, reference_batch: int) -> None:
        self._session = session
        self._reference_batch = reference_batch
        self._passes = 0  # of earlier loops over run.epochs in this script

    # -- what a script reads

    @property
    def device(self) -> torch.device:
        """The device of this rank."""
        return self._session.device

    @property
    def seed(self) -> int:
        """The seed of the data order."""
        return self._session.seed

    @property
    def rank(self) -> int:
        """This process's place in the job, 0 to world_size - 1; it may change with membership."""
        return self._session.rank

    @property
    def world_size(self) -> int:
        """How many processes train together; it may change with membership."""
        return self._session.world_size

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0: the one that prints and writes files."""
        return self.rank == 0

    @property
    def batch_size(self) -> int:
        """The total batch, in samples; it may change at step boundaries where it adapts."""
        return self._session.planning.batch

    @property
    def noise_scale(self) -> float | None:
        """The gradient noise scale in samples, where the batch adapts and it is known."""
        return self._session.progress.noise_scale

    @property
    def plan(self) -> Plan:
        """The split in use; known inside `run.epochs`."""
        return self._session.plan

    def plan_for(self, step: int) -> Plan:
        """Return the plan of a step, as far as it is decided."""
        return self._session.plan_for(step)

    @property
    def committed_steps(self) -> int:
        """How many steps have been committed."""
        return self._session.committed_steps

    @property
    def boundary(self) -> bool:
        """Whether the batch under way is its step's last: the optimizer acts after it."""
        return self._session.stepper.boundary

    @property
    def committed(self) -> bool:
        """Whether the step under way counts: whole, and not void because a rank was lost."""
        return self._session.stepper.committed

    # -- the changed lines

    def mesh(self) -> DeviceMesh:
        """Return all ranks as a mesh, to shard a model over: `fully_shard(..., mesh=run.mesh())`.

        The ranks meet here, before anything is prepared, and stay the same to the run's end: the
        run is not elastic, and ends where it loses a rank. The batch is split evenly where the
        script says no other split.

        Raises:
            InputError: something is prepared already, or the batch is to adapt.
            TrainingError: a rank was lost before all had met.
        """
        from staves.training import _sharding  # a second of imports, for those who shard

        session, state = self._session, self._session.progress.state
        if state.sharding is not None:
            return state.sharding.mesh
        if (
            session.stepper.model is not None
            or state.optimizers
            or session.planning.planner is not None
        ):
            raise InputError(
                "run.mesh: something is prepared already",
                hint="mesh = run.mesh(); fully_shard(model, mesh=mesh); then the optimizer, then"
                " run.prepare",
            )
        if session.progress.adaptation is not None:
            raise InputError(
                "run.mesh: the batch of a sharded model cannot adapt: its noise is not measured",
                hint="give a number: staves.init(batch_size=256)",
            )
        learned = session.planning.split == "auto"
        generation = session.meet(fingerprint(None, None, seed=self.seed, options={}))
        state.sharding = _sharding.over(generation, self.device, session.crew.interrupted)
        if learned and generation.rank == 0 and generation.world_size > 1:
            session.channel.say(
                "the split of a sharded model is not learned: it is even, unless staves.init(split="
                "[...]) or --split says another"
            )
        return state.sharding.mesh

    def prepare(
        self,
        *objects: Any,
        bucket_cap_mb: float | None = None,
        static_graph: bool = False,
        find_unused_parameters: bool = False,
    ) -> Any:
        """Prepare a model, its optimizers, schedules and scaler; return as many values as given.

        The model moves to this rank's device; all ranks start from one state. None passes through.
        The options are those of `DistributedDataParallel`.

        Raises:
            InputError: something that is none of them, a second model or a second scaler.
        """
        prepared = tuple(self._prepare_one(each) for each in objects)
        options = {"static_graph": static_graph, "find_unused_parameters": find_unused_parameters}
        sharded = self._session.progress.state.sharding is not None
        if sharded and (bucket_cap_mb is not None or any(options.values())):
            raise InputError(
                "run.prepare: bucket_cap_mb, static_graph and find_unused_parameters are not for"
                " a sharded model",
                hint="leave them out: what is reduced together is what you give fully_shard",
            )
        self._session.ddp_options |= {name: True for name, wanted in options.items() if wanted}
        if bucket_cap_mb is not None:
            self._session.ddp_options["bucket_cap_mb"] = bucket_cap_mb
        return prepared[0] if len(prepared) == 1 else prepared

    def loader(self, dataset: Dataset[Any], **options: Any) -> Loader:
        """Return the loader of the training data; `options` are those of torch's DataLoader.

        It yields this rank's share of each batch, on this rank's device. Every sample comes once an
        epoch, in one order, whatever the split. Of a stream (an IterableDataset) that is its own
        order; every rank reads all of it. `length=` then says how many samples a pass has, for
        schedules and progress; without it `len(loader)` is a TypeError.

        Raises:
            InputError: a second loader, an empty data set, or an option that Staves decides.
        """
        session = self._session
        if session.loader is not None:
            raise InputError(
                "run.loader: this run has its training loader already",
                hint="evaluate with an ordinary DataLoader",
            )
        loader = Loader(
            dataset,
            session,
            seed=self.seed,
            reference_batch=self._reference_batch,
            batch=session.planning.batch,
            place=place_on(self.device),
            options=options,
        )
        session.progress.take_loader(loader)
        return loader

    def register(self, name: str, each: Any) -> Any:
        """Carry an object along to joiners and in checkpoints: an EMA, a best metric.

        Returns the object itself. It needs `state_dict()` and `load_state_dict(state)`.

        Raises:
            InputError: it has no such methods, is to be prepared, or the name is taken.
        """
        if isinstance(each, torch.amp.GradScaler):
            raise InputError(
                f"run.register({name!r}): a GradScaler is prepared, not registered",
                hint="scaler = run.prepare(scaler)",
            )
        self._session.progress.state.register(name, each)
        return each

    def on_commit(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call this after every committed step, before anything else happens: for EMA, counters."""
        self._session.on_commit.append(call)
        return call

    @staticmethod
    def once(work: Callable[[], object]) -> None:
        """Let one process of this machine do `work` (a download) while the others wait for it."""
        once(work)

    def epochs(self, count: int, *, of: Literal["progress", "data"] = "progress") -> Iterator[int]:
        """Iterate over the passes over the data up to `count`, and finish the run after the last.

        With `staves.Adaptive` a sample in a larger batch is worth less, so there may be more passes
        than `count`: until progress is that of `count` passes at the reference batch. The last one
        may be cut short. `of="data"` makes it `count` passes in any case.

        A rank that joins or resumes starts at the epoch under way. A second loop goes on behind the
        first; ranks come and go in the first one only.
        """
        positive_integer("run.epochs", count, hint="count passes over the data")
        if of not in ("progress", "data"):
            raise InputError(f"run.epochs(of): {of!r}", hint='"progress" or "data"')
        session, start = self._session, self._passes
        session.progress.aim(count if of == "progress" else None)
        session.in_epoch = True
        session.figures.epochs_wanted = start + count
        completed = False
        try:
            if session.planning.planner is None:
                self._join()
            while not session.progress.reached(start + count, session.epoch):
                yield session.epoch - start
                session.leave_epoch()
            completed = True
        except GeneratorExit:  # the script breaks off: what was trained counts
            if not session.leaving:
                session.break_off()
                completed = True
            raise
        finally:
            session.in_epoch = False
            self._passes = session.epoch
            if completed:
                session.finish()

    def backward(self, loss: torch.Tensor, weight: float | None = None) -> None:
        """Run the backward pass of this batch's mean loss, and reduce the gradients.

        Where a rank was lost meanwhile it does not raise: the step is void (`run.committed` is
        False), prepared optimizers and schedules do nothing, and its samples come again.

        Args:
            loss: the mean over this batch's samples; a scalar.
            weight: how much the batch counts where that is not its number of samples, such as its
                tokens; then `loss` is the mean over that weight, and the step's gradient the mean
                over all of it.

        Raises:
            TrainingError: outside the loop over the prepared loader, or called twice for a batch.
        """
        self._session.stepper.backward(loss, weight)

    def evaluate(self, items: Iterable[Item]) -> Iterator[Item]:
        """Iterate over what an evaluation uses, a DataLoader or anything else, item by item.

        A change of membership waits for this rank's next step boundary, which is behind the
        evaluation. A rank that takes longer than `--grace` to come there is ended, unless it
        evaluates in this loop: then each item gives it `--grace` anew. Parameters stay as they are
        meanwhile, and nothing here waits for other ranks, so that one rank may evaluate alone.
        """
        for item in items:
            self._session.teller.evaluating()
            yield item
        self._session.teller.evaluating()

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor | None:
        """Clip the norm of the whole batch's gradient; call it before `optimizer.step()`.

        Returns the norm before clipping; None, and nothing is done, where the step is not whole.
        """
        stepper = self._session.stepper
        if stepper.model is None or not stepper.may_step():
            return None
        if stepper.scaler is not None:
            stepper.scaler.unscale_all()
        parameters = stepper.model.module.parameters()
        norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)
        sharding = stepper.model.sharding
        return norm if sharding is None else sharding.gathered(norm)

    def log(self, **metrics: Any) -> None:
        """Report metrics of this epoch, beside the mean training loss over all ranks."""
        session = self._session
        self._settle()
        values = {name: float(value) for name, value in metrics.items()}
        session.figures.metrics |= values
        if not self.is_main:
            return
        epoch, loss = session.figures.epochs, session.figures.epoch_loss
        if session.figures.board is not None:
            named = {f"metrics/{name}": value for name, value in values.items()}
            whole = {"training/epoch_loss": loss} | named
            session.figures.board.write(whole, step=session.figures.steps)
        if session.channel.connected:
            session.channel.send("log", epoch=epoch, metrics=values)
            return
        shown = [] if loss is None or "loss" in values else [f"loss {loss:.4f}"]
        shown += [f"{name} {value:.4g}" for name, value in values.items()]
        print(f"epoch {epoch}: " + ", ".join(shown), flush=True)

    @staticmethod
    def unwrap(model: nn.Module) -> nn.Module:
        """Return the user's own module: for evaluation and for saving."""
        return model.module if isinstance(model, PreparedModel) else model

    def report(self) -> dict[str, Any]:
        """Return the figures so far (those of `staves run --json`, as this rank knows them).

        `history` holds more: `settings` (devices, local batches, predicted and even step, idle
        share) and `rows` over the steps, each with the place of its setting, its mean step time,
        noise scale and goodput. Long runs have rows of several steps.
        """
        session = self._session
        self._settle()
        if session.channel.connected:
            learn_losses(session.figures, session.crew)
        return session.report()

    # -- inside

    def _settle(self) -> None:
        """Commit the step under way if it is over; else leave it: the script may have broken off a
        pass with a batch in hand, or ask for figures in the middle of a step."""
        if self._session.stepper.over:
            self._session.settle()

    def _join(self) -> None:
        session = self._session
        model = session.stepper.model
        if session.loader is not None and model is not None and model.has_batch_norm():
            session.loader.stand_in_samples(2)
        if model is not None and self.is_main and self.world_size > 1 and model.splits_batch_norm():
            session.channel.say(
                "warning: BatchNorm normalises each rank's samples by themselves: training depends"
                " on the split; GroupNorm or LayerNorm do not"
            )
        state = session.progress.state
        if self.is_main and unscheduled(state.optimizers, state.schedules):
            session.channel.say(
                "warning: a learning-rate schedule is not prepared: it moves at each of its step()"
                " calls, not with progress; schedule = run.prepare(schedule)"
            )
        session.join(
            fingerprint(
                None if model is None else model.module,
                session.loader,
                seed=self.seed,
                options=session.ddp_options,
            )
        )

    def _prepare_one(self, each: Any) -> Any:
        stepper, state = self._session.stepper, self._session.progress.state
        ours = (PreparedModel, PreparedOptimizer, PreparedSchedule, PreparedScaler)
        if each is None or isinstance(each, ours):
            return each
        if isinstance(each, nn.Module):
            if stepper.model is not None:
                raise InputError(
                    "run.prepare: a second model",
                    hint="put the models into one nn.Module and prepare that",
                )
            if state.sharding is None:
                check_bare(each)
                each.to(self.device)
            else:
                state.sharding.check_model(each)
            state.model = each
            stepper.model = PreparedModel(each, stepper, state.sharding)
            return stepper.model
        if isinstance(each, Optimizer):
            if state.sharding is not None:
                state.sharding.check_optimizer(each)
            state.optimizers.append(each)
            prepared = PreparedOptimizer(each, stepper)
            stepper.prepared.append(prepared)
            return prepared
        if isinstance(each, torch.amp.GradScaler):
            if state.sharding is not None:
                raise InputError(
                    "run.prepare: a GradScaler cannot be used with a sharded model",
                    hint="train in bf16: give fully_shard an mp_policy of torch.bfloat16",
                )
            if stepper.scaler is not None:
                raise InputError(
                    "run.prepare: a second GradScaler", hint="one scaler serves all optimizers"
                )
            stepper.scaler = PreparedScaler(each, stepper, stepper.prepared)
            state.register("grad-scaler", each)
            return stepper.scaler
        if isinstance(each, (LRScheduler, ReduceLROnPlateau)):
            state.schedules.append(each)
            return PreparedSchedule(each, stepper)
        raise InputError(
            f"run.prepare: a {type(each).__name__} is no model, optimizer, schedule or scaler",
            hint="prepare(model, optimizer, schedule); data goes to run.loader",
        )
