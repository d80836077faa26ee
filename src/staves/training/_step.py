"""One step on one rank: backward passes, weights, and the moment at which it counts.

A step is whole when the backward pass of its last micro-batch has reduced the gradients; it is
committed when the loader is asked for what follows. Prepared optimizers and schedules ask here
whether they may act.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.optim import Optimizer

from staves.errors import TrainingError
from staves.training._adaptation import Adaptation
from staves.training._figures import Figures
from staves.training._interrupt import Interrupted
from staves.training._loader import Ticket
from staves.training._model import PreparedModel
from staves.training._noise import GradientNorms
from staves.training._optimizer import PreparedOptimizer
from staves.training._pacing import Pacer
from staves.training._planner import WARM_UP
from staves.training._reducer import WeightedReducer
from staves.training._scaler import PreparedScaler
from staves.training._timing import StepTimer


class Stepper:
    """The step under way (a `StepGate`).

    A step is *void* when the generation broke before its gradients were reduced, when a rank ran
    out of memory, or when its fp16 gradients are not finite: the backward pass does not raise,
    prepared optimizers and schedules do nothing, and the loader yields the same samples again,
    split anew (rule 3).

    Args:
        timer: of the steps.
        pacer: of an emulated device; None for a real one.
        figures: where losses are counted.
        total: sums a number over all ranks, for batches weighted otherwise than by samples.
        lost: whether a failure comes from a broken generation.
        ran_out: this rank has run out of memory with that many samples at once.
    """

    def __init__(
        self,
        timer: StepTimer,
        pacer: Pacer | None,
        figures: Figures,
        total: Callable[[float], float],
        lost: Callable[[Exception], bool],
        ran_out: Callable[[int], None],
    ) -> None:
        self.timer, self.pacer, self.figures = timer, pacer, figures
        self.model: PreparedModel | None = None
        self.reducer: WeightedReducer | None = None
        self.prepared: list[PreparedOptimizer] = []
        self.scaler: PreparedScaler | None = None
        self.adaptation: Adaptation | None = None
        self.norms: GradientNorms | None = None
        self.void = self.short_of_memory = self.repeats = False
        self.weightless = False  # the batch whose backward pass is under way
        self.on_failed_update: Callable[[BaseException], None] = lambda error: None
        self._total, self._lost, self._ran_out = total, lost, ran_out
        self._ticket: Ticket | None = None
        self._backward_done = self._gives_up = self._reducing = self._weight_told = False
        self._updates = 0
        self._rates: list[float] = []
        self._losses: list[tuple[torch.Tensor, int]] = []
        self._local_weight = 0.0
        self._total_weight = 0.0
        self._weight_unit: float | None = None

    def adapt(
        self, adaptation: Adaptation | None, optimizers: list[Any], device: torch.device
    ) -> None:
        """Follow an adaptive batch; None: the batch is fixed, and no norms are taken."""
        self.adaptation = adaptation
        self.norms = None if adaptation is None else GradientNorms(optimizers, device)

    def learn(self, ticket: Ticket, interrupted: Callable[[], bool]) -> None:
        """The step of `ticket` is committed: count its progress, and take in an earlier one's
        norms."""
        if self.adaptation is not None and self.norms is not None:
            self.adaptation.committed(ticket.cut.batch, self.norms.take(interrupted))

    def distribute(
        self,
        group: dist.ProcessGroup,
        device: torch.device,
        options: dict[str, Any],
        *,
        accumulates: bool,
    ) -> None:
        """Reduce the model's gradients over `group` from now on; the options are those of DDP."""
        if self.model is None or self.model.sharding is not None:
            return
        self.release()
        if accumulates and "static_graph" in options:
            # Torch counts the accumulating passes among those of its static graph, and would
            # reduce at the wrong one (2.13); what else the option allows is unused parameters.
            options = {**options, "static_graph": False, "find_unused_parameters": True}
        trainable = [p for p in self.model.module.parameters() if p.requires_grad]
        self.reducer = WeightedReducer(
            *(group, self.timer, self.pacer, self.norms),
            elements=sum(p.numel() for p in trainable),
            device=device,
        )
        self.model.distribute(group, self.reducer, options)

    @property
    def static(self) -> bool:
        """Whether the model's wrapper takes every step to run the same graph."""
        return self.model is not None and self.model.static

    def release(self) -> list[Any]:
        """Let go of a generation's group; return what may still be stuck in it."""
        left = [] if self.norms is None else self.norms.drop()
        left += [self.model.release() if self.model is not None else None, self.reducer]
        self.reducer = None
        return left

    @property
    def waits(self) -> bool:
        """Whether something of the step is under way between the ranks."""
        norms, reducer = self.norms, self.reducer
        return (norms is not None and norms.waits) or (reducer is not None and reducer.waits)

    @property
    def failed(self) -> bool:
        """Whether a bucket's reduction has failed."""
        return self.reducer is not None and self.reducer.failed

    def abandon(self) -> None:
        """Called by the watcher: fail the buckets under way, the generation has lost a member."""
        reducer = self.reducer
        if reducer is not None:
            reducer.abandon(RuntimeError("the generation has lost a member"))

    @property
    def boundary(self) -> bool:
        """Whether the batch under way is its step's last: the optimizer acts after it."""
        return self._ticket is not None and self._ticket.last

    @property
    def committed(self) -> bool:
        """Whether the last backward pass made a step whole, so that its update counts."""
        return self.boundary and self._backward_done and not self.void

    @property
    def samples_at_once(self) -> int:
        """Samples of the batch under way on this rank; a rank without any runs one."""
        return 1 if self._ticket is None else max(1, self._ticket.samples)

    @property
    def loss_scale(self) -> float:
        """What the gradients are multiplied by while they are reduced: a prepared scaler's."""
        return 1.0 if self.scaler is None else self.scaler.get_scale()

    def start_clock(self) -> None:
        """Start timing here, unless the step before ended just now and its end is the start."""
        if not self.timer.started:
            self.timer.begin()
            if self.pacer is not None:
                self.pacer.begin(time.perf_counter())
        self.timer.loading()

    def begin(self, ticket: Ticket) -> None:
        """The batch of `ticket` is about to be used."""
        if self._ticket is not None and not self._backward_done:
            raise _no_backward()
        if ticket.micro_steps > 1:
            self._check_rates(ticket)
        self._ticket, self._backward_done, self.repeats = ticket, False, False
        if self.model is not None:
            self.model.synchronise(ticket.last)
        if ticket.micro == 0:
            self.timer.loaded()
            self._local_weight = 0.0
            self._gives_up = self._reducing = self._weight_told = False
            self._losses.clear()
            if self.reducer is not None:
                self.reducer.weight = 1.0 if ticket.local_batch else 0.0
            if self.norms is not None and self.model is not None:
                self.norms.loss_scale = self.loss_scale
                self.norms.begin(
                    self.model.module,
                    step=self.figures.steps,
                    micro_steps=ticket.micro_steps,
                    sparse=self.adaptation is not None and self.adaptation.known_well,
                )

    def _check_rates(self, ticket: Ticket) -> None:
        """Refuse learning rates that change within a step."""
        rates = [float(group["lr"]) for each in self.prepared for group in each.param_groups]
        if ticket.micro > 0 and rates != self._rates:
            raise TrainingError(
                "the learning rate changed between two micro-batches of one step: a schedule that"
                " is not prepared moves once for each of them",
                hint="schedule = run.prepare(schedule), before run.epochs",
            )
        self._rates = rates

    def backward(self, loss: torch.Tensor, weight: float | None) -> None:
        """Run the backward pass of the batch under way (see `Run.backward`)."""
        ticket = self._ticket
        if ticket is None:
            raise TrainingError(
                "run.backward was called outside of the loop over the prepared loader",
                hint="for inputs, targets in batches: ... run.backward(loss)",
            )
        if self._backward_done:
            raise TrainingError(
                "run.backward was called twice for one batch",
                hint="add the losses and call it once",
            )
        if ticket.samples > 0 and weight != 0:
            own = loss.detach()
            if self.scaler is not None:
                own = self.scaler.unscaled(own)
            self._losses.append((own, ticket.samples))
        if self.pacer is not None:
            self.pacer.forward(ticket.samples)
        try:
            if not self.void:
                self._backward(ticket, loss, weight)
        except (RuntimeError, Interrupted) as error:
            if not self.lose(error):
                raise
        if self._gives_up:  # not in the clause above: the error holds what the failed pass holds
            self._give_up(ticket, weight)
        self._backward_done = True

    def lose(self, error: Exception) -> bool:
        """A pass has failed: void the step if memory or a broken generation is the reason.

        Raises:
            TrainingError: a single sample at once was too many.
        """
        if isinstance(error, torch.OutOfMemoryError) and self._can_give_up():
            self._ran_out(self.samples_at_once)
            self.void = self.short_of_memory = self._gives_up = True
        elif self._lost(error):
            self.void = True
        return self.void

    def _can_give_up(self) -> bool:
        """Whether this rank can still take part in all that the others do in this step."""
        if self._ticket is None or self._backward_done or self.model is None:
            return False
        if self.model.sharding is not None:  # the others wait in every layer for its part
            return False
        if self.reducer is None:
            return True
        return not (self.model.meets_in_forward or (self._reducing and self.reducer.voted))

    def _give_up(self, ticket: Ticket, weight: float | None) -> None:
        """Take part in the step, so that nobody waits for this rank, with zeros and a veto."""
        if weight is not None and not self._weight_told:
            self._local_weight += float(weight) if ticket.samples > 0 else 0.0
        if not ticket.last:
            return
        try:
            if weight is not None and not self._weight_told:
                self._total(self._local_weight)
            if self.reducer is not None and self.model is not None:
                if not self._reducing:
                    self.reducer.begin()
                self.reducer.veto = True
                self.model.take_part(self.reducer, midway=self._reducing)
                self.reducer.vetoed()  # the others vote, too
        except (RuntimeError, Interrupted) as error:
            if not self._lost(error):
                raise

    @property
    def scaled(self) -> bool:
        """Whether a scaler was prepared."""
        return self.scaler is not None

    def not_finite(self) -> None:
        """The reduced gradients are not finite, on all ranks alike: the step is void."""
        self.void = True

    def may_step(self) -> bool:
        """Whether the step under way is whole."""
        if self._ticket is not None and not self._backward_done:
            raise _no_backward()
        if not self.boundary or self.void:
            return False
        self.timer.updating()
        return True

    def schedule_moves(self) -> int:
        """How many reference batches the step under way completes; 1 where none is under way."""
        if self._ticket is None:
            return 1
        if not self._ticket.last or self.void:
            return 0
        batch = self._ticket.cut.batch
        return 1 if self.adaptation is None else self.adaptation.schedule_moves(batch)

    def learning_rate_factor(self, optimizer: Optimizer) -> float:
        """The factor on an optimizer's learning rates for the step under way."""
        if self.adaptation is None or self._ticket is None:
            return 1.0
        return self.adaptation.learning_rate_factor(self._ticket.cut.batch, optimizer)

    def may_clear(self) -> bool:
        """Whether no gradients of the step under way would be lost, or it is whole."""
        if self._ticket is None or self.void:
            return True
        return self._ticket.last if self._backward_done else self._ticket.micro == 0

    def stepped(self) -> None:
        """An optimizer has updated parameters."""
        self.timer.updated()
        self._updates += 1

    def update_failed(self, error: BaseException) -> None:
        """An optimizer failed half-way: the parameters belong to no step (rule 7).

        The step is void here, where the script goes on; on other ranks it may well be committed.
        """
        self.void = True
        self.on_failed_update(error)

    @property
    def over(self) -> bool:
        """Whether nothing is under way that the script has still to finish."""
        ticket = self._ticket
        if ticket is None:
            return True
        whole = ticket.last and self._backward_done
        return whole and (self.void or not self.prepared or self._updates > 0)

    def take(self) -> Ticket | None:
        """Return the ticket of a step that is over, to be committed now; None while none is.

        Raises:
            TrainingError: the script left out the backward pass or the update.
        """
        ticket = self._ticket
        if ticket is None:
            return None
        if not self._backward_done:
            raise _no_backward()
        if not ticket.last:
            return None
        if self.void:
            self.drop()
            return None
        if self.prepared and self._updates == 0:
            raise TrainingError(
                "optimizer.step() was not called after run.backward(loss)",
                hint="step the optimizer that run.prepare returned, once for every batch; a"
                " GradScaler is prepared, too",
            )
        for loss, samples in self._losses:
            self.figures.add_loss(loss, samples)
        self._ticket, self._updates = None, 0
        return ticket

    def drop(self) -> None:
        """Forget a step that was begun and will not be finished, and its gradients."""
        if self.model is not None and self._ticket is not None:
            self.model.module.zero_grad(set_to_none=True)
        self.repeats = self.void
        self._ticket, self._updates, self.void = None, 0, False
        self._losses.clear()
        self.timer.pause()

    def _backward(self, ticket: Ticket, loss: torch.Tensor, weight: float | None) -> None:
        scale = self._weigh(ticket, weight)
        sharded = self.model is not None and self.model.sharding is not None
        self.weightless = ticket.samples == 0 or weight == 0
        if sharded and self.model is not None:
            scale = 0.0 if self.weightless else scale * self.model.averaged_over
        if ticket.last:
            self.timer.backward()
            if self.reducer is not None:
                self.reducer.begin()
                self._reducing = True
        if self.norms is not None:
            own = ticket.samples if weight is None else weight * (ticket.samples > 0)
            self.norms.group(own, self._unit(ticket, weight))
        if weight == 0 and ticket.last and self.model is not None and not sharded:
            loss, scale = self._no_loss(self.model), 1.0
        if ticket.last or sharded or not self.weightless:  # else it is wanted nowhere
            _backward(loss, scale)
        if self.pacer is not None and (not ticket.last or self.reducer is None):
            self.pacer.backward()
        if not ticket.last:
            return
        if self.reducer is not None and self.reducer.vetoed():
            self.void = self.short_of_memory = True
        self.timer.end()
        if self.pacer is not None:
            self.pacer.end(counted=self.figures.steps >= WARM_UP)
            self.pacer.begin(time.perf_counter())
        if self.reducer is None and weight is not None:
            self._rescale_gradients()
        if self.norms is not None and self.model is not None and not self.void:
            self.norms.reduce(
                self.model.module,
                batch=ticket.cut.batch,
                weight=ticket.cut.batch if weight is None else self._total_weight,
                group=None if self.reducer is None else self.reducer.group,
            )

    def _unit(self, ticket: Ticket, weight: float | None) -> float:
        """Return what the weight of a batch is divided by in its loss."""
        return float(ticket.cut.batch if weight is None else self._weight_unit or 1.0)

    @staticmethod
    def _no_loss(model: PreparedModel) -> torch.Tensor:
        """Return a loss whose gradients are all 0, for a batch without weight.

        Its own is a mean over nothing, nan perhaps, and 0 x nan is nan.
        """
        loss = torch.zeros((), device=next(model.module.parameters()).device)
        for parameter in model.module.parameters():
            if parameter.requires_grad:
                loss = loss + 0.0 * parameter.sum()
        return loss

    def _weigh(self, ticket: Ticket, weight: float | None) -> float:
        """Return the factor of this batch's loss, and set the reducer's.

        By samples: b_ij / B here, and nothing in the bucket, whose scaling would be one more pass
        over all gradients. By a weight w of the user's: w / unit here and unit / W in the bucket, W
        summed over all micro-batches of all ranks, known only at the last. The unit only keeps the
        sizes of gradients usual; it is the same on all ranks.
        """
        if weight is None:
            return ticket.samples / ticket.cut.batch if ticket.samples else 1.0
        if self._weight_unit is None:
            self._weight_unit = float(ticket.cut.batch)
        if not (math.isfinite(weight) and weight >= 0):
            raise TrainingError(
                f"run.backward(weight): {weight} is not a finite number of 0 or more",
                hint="count tokens, or whatever the loss is a mean over",
            )
        weight = float(weight) if ticket.samples > 0 else 0.0
        self._local_weight += weight
        if ticket.last:
            self._weight_told = True
            self._total_weight = self._total(self._local_weight)
            if not self._total_weight > 0:
                raise TrainingError("run.backward: the weights of the whole batch sum to 0")
            if self.reducer is not None:
                alone = self._local_weight == 0.0
                self.reducer.weight = 0.0 if alone else self._weight_unit / self._total_weight
        return weight / self._weight_unit

    def _rescale_gradients(self) -> None:
        """Finish a weighted step where no reducer does it: one process, no group."""
        assert self._weight_unit is not None
        factor = self._weight_unit / self._total_weight
        if self.model is not None and factor != 1.0:
            for parameter in self.model.module.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)


def _backward(loss: torch.Tensor, scale: float) -> None:
    """Compute the gradients of `scale` times the loss, without the operation more on either way."""
    if scale == 1.0 or loss.numel() != 1:  # torch refuses the latter
        loss.backward()  # type: ignore[no-untyped-call]
    else:
        loss.backward(torch.full_like(loss, scale))  # type: ignore[no-untyped-call]


def _no_backward() -> TrainingError:
    return TrainingError(
        "a batch was used without run.backward(loss)",
        hint="call run.backward(loss) for every batch, instead of loss.backward()",
    )
