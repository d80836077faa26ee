"""One process that trains for many devices: a backward pass for each one's share, one update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from staves.errors import InputError, TrainingError, quoted
from staves.training._adaptation import Adaptation
from staves.training._arguments import instance
from staves.training._figures import Figures
from staves.training._indexed import IndexedSource
from staves.training._loader import Ticket
from staves.training._model import PreparedModel, check_bare
from staves.training._optimizer import PreparedOptimizer, PreparedSchedule
from staves.training._random import seed_everything
from staves.training._sampler import Cut
from staves.training._step import Stepper
from staves.training._timing import HostClock, StepTimer

Loss = Callable[[nn.Module, Any], torch.Tensor]
"""The mean loss of a batch: (model, what the data set's samples are collated to) -> scalar."""


class OneProcess:
    """The real part of virtual time: data, gradients, norms, updates.

    A device's share is to this process what a micro-batch is to any: its loss counts b_i / B, and
    hooks on the parameters take the norm of its own gradient.

    Args:
        model, optimizer, schedule, loss: the user's.
        source: of the samples.
        adaptation: of an adaptive batch; None: it is fixed, and no norms are taken.
        seed: of what is random in a step.

    Raises:
        InputError: one of the user's is something else, or they do not belong together.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        schedule: Any,
        loss: Loss,
        *,
        source: IndexedSource,
        adaptation: Adaptation | None,
        seed: int,
    ) -> None:
        _check(model, optimizer, schedule, loss)
        self.source = source
        self._model, self._loss, self._seed = model, loss, seed
        self._shares: list[tuple[int, int, int]] = []  # (epoch, start, stop), to be loaded next
        self._data: Iterator[Any] | None = None
        self._figures = Figures(None)
        self._stepper = Stepper(
            *(StepTimer(HostClock()), None, self._figures),
            total=lambda value: value,
            lost=lambda error: False,
            ran_out=lambda samples: None,
            by_samples=lambda: None,
        )
        self._stepper.model = PreparedModel(model, self._stepper)
        self._optimizer = PreparedOptimizer(optimizer, self._stepper)
        self._stepper.prepared.append(self._optimizer)
        device = next(model.parameters()).device
        self._stepper.adapt(adaptation, [optimizer], device)
        self._schedule = None if schedule is None else PreparedSchedule(schedule, self._stepper)

    @property
    def steps(self) -> int:
        """How many have been made."""
        return self._figures.steps

    def train(self, cut: Cut, micro_steps: int) -> float:
        """Make one step, and return the mean loss of its samples before it.

        Raises:
            TrainingError: the loss has no gradient, is no single number, or not finite; nothing is
                updated then.
        """
        stepper, losses = self._stepper, []
        shares = [
            (rank, start, stop)
            for rank in range(len(cut.local_batches))
            for start, stop in cut.micro_bounds(rank, micro_steps)
            if stop > start
        ]
        for place, (rank, start, stop) in enumerate(shares):
            local = cut.local_batches[rank]
            batch = self._load(cut.epoch, start, stop)
            stepper.begin(Ticket(0, cut, place, len(shares), start, stop, local))
            seed_everything(self._seed, cut.epoch, start)
            loss = self._loss(self._model, batch)
            stepper.backward(loss, None)
            losses.append(loss.detach().reshape(()))
        if not torch.stack(losses).isfinite().all():
            stepper.drop()
            raise TrainingError(
                f"the loss of step {self.steps} is not finite; the parameters are those before it",
                hint="lower the learning rate, or look for samples that are not finite",
            )
        self._optimizer.step()
        self._optimizer.zero_grad()
        if self._schedule is not None:
            self._schedule.step()
        ticket = stepper.take()
        assert ticket is not None
        self.source.cursor.commit(cut)
        stepper.learn(ticket, lambda: False)
        self._figures.steps += 1
        total, samples = self._figures.loss_so_far()
        self._figures.clear_loss()
        return total / samples

    def _load(self, epoch: int, start: int, stop: int) -> Any:
        """Return the collated samples at [start, stop) of that pass's order."""
        self._shares.append((epoch, start, stop))
        if self._data is None:
            self._data = self.source.batches(self._issue)
        return next(self._data)

    def _issue(self) -> Iterator[tuple[int, int, int]]:
        while True:
            yield self._shares.pop()


def _check(model: object, optimizer: object, schedule: object, loss: object) -> None:
    """Refuse what cannot be trained together."""
    caller = "VirtualTrainer"
    module = instance(f"{caller}(model)", model, nn.Module, "a torch.nn.Module")
    check_bare(module, caller)
    own = {id(parameter) for parameter in module.parameters()}
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InputError(
            f"{caller}: the model has no parameter to train",
            hint="give one with parameters that require a gradient",
        )
    bare = instance(f"{caller}(optimizer)", optimizer, Optimizer, "one of torch.optim")
    if isinstance(bare, PreparedOptimizer):
        raise InputError(
            f"{caller}: the optimizer is prepared already",
            hint="give the bare one: nothing is prepared in virtual time",
        )
    if any(id(each) not in own for group in bare.param_groups for each in group["params"]):
        raise InputError(
            f"{caller}: the optimizer has parameters that are none of the model's",
            hint="make it of this model's: SGD(model.parameters(), lr=0.1)",
        )
    if schedule is not None:
        _check_schedule(caller, schedule, bare)
    if not callable(loss):
        raise InputError(
            f"{caller}(loss): {quoted(loss)} is no function",
            hint="lambda model, batch: criterion(model(batch[0]), batch[1])",
        )


def _check_schedule(caller: str, schedule: object, optimizer: Optimizer) -> None:
    hint = "one of torch.optim.lr_scheduler, made of this optimizer"
    if instance(f"{caller}(schedule)", schedule, LRScheduler, hint).optimizer is not optimizer:
        raise InputError(f"{caller}(schedule): it is another optimizer's", hint=hint)
    if isinstance(schedule, ReduceLROnPlateau):
        raise InputError(
            f"{caller}(schedule): ReduceLROnPlateau waits for a metric, which nobody gives it here",
            hint="choose one that counts steps",
        )
