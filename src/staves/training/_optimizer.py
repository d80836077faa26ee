"""Prepared optimizers and schedules: they act when a step is whole, and never on a part of one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from staves.errors import TrainingError


class StepGate(Protocol):
    """What a prepared object asks the run."""

    def may_step(self) -> bool:
        """Whether the step under way is whole: its last micro-batch reduced, and not void."""

    def may_clear(self) -> bool:
        """Whether gradients may be cleared: none of the step under way are there, or all were."""

    def stepped(self) -> None:
        """An optimizer has updated parameters."""

    def update_failed(self, error: BaseException) -> None:
        """An optimizer failed half-way through its parameters."""

    @property
    def scaled(self) -> bool:
        """Whether a scaler of losses was prepared, too."""

    def schedule_moves(self) -> int:
        """How many times a schedule moves on: never before the step under way is whole."""

    def learning_rate_factor(self, optimizer: Optimizer) -> float:
        """The factor on the learning rates for the step under way: of a larger batch than the one
        that they were chosen for."""


class PreparedOptimizer(Optimizer):
    """The user's optimizer, which does nothing until the gradients of the whole batch are there."""

    def __init__(self, optimizer: Optimizer, gate: StepGate) -> None:
        # Not Optimizer.__init__: all state stays in the user's own optimizer.
        self.optimizer = optimizer
        self._gate = gate

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The parameter groups of the user's optimizer."""
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of the user's optimizer."""
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The defaults of the user's optimizer."""
        return self.optimizer.defaults

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters if the step is whole; otherwise do nothing.

        Raises:
            TrainingError: a closure was given; it would compute more gradients on one rank than on
                another.
        """
        if closure is not None:
            raise TrainingError(
                "optimizer.step(closure) is not supported: each rank would run it by itself",
                hint="compute the loss in the loop and call run.backward(loss)",
            )
        if not self._gate.may_step():
            return None
        try:
            with _scaled(self.optimizer, self._gate.learning_rate_factor(self.optimizer)):
                result = self.optimizer.step()
        except BaseException as error:
            self._gate.update_failed(error)
            raise
        self._gate.stepped()
        return result

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Asked by torch's GradScaler alone; a prepared one has done what this would."""
        if not self._gate.scaled:
            raise TrainingError(
                "a GradScaler that is not prepared would act on a part of the batch",
                hint="scaler = run.prepare(scaler), before run.epochs",
            )
        return False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients, unless they are still being accumulated."""
        if self._gate.may_clear():
            self.optimizer.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the user's optimizer."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of the user's optimizer."""
        self.optimizer.load_state_dict(state_dict)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group to the user's optimizer."""
        self.optimizer.add_param_group(param_group)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["optimizer"], name)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"Prepared({self.optimizer!r})"


@contextlib.contextmanager
def _scaled(optimizer: Optimizer, factor: float) -> Iterator[None]:
    """Multiply the learning rates meanwhile: schedules and logs see those that the user set."""
    rates = [group["lr"] for group in optimizer.param_groups] if factor != 1.0 else []
    for group, rate in zip(optimizer.param_groups, rates, strict=False):
        group["lr"] = rate * factor
    try:
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=False):
            group["lr"] = rate


def unscheduled(optimizers: Iterable[Optimizer], schedules: Iterable[Any]) -> bool:
    """Whether a schedule was made for one of these optimizers, and is none of `schedules`.

    Torch's schedules leave their mark, the initial learning rate, in the parameter groups.
    """
    followed = [id(schedule.optimizer.param_groups) for schedule in schedules]
    return any(
        id(optimizer.param_groups) not in followed
        and any("initial_lr" in group for group in optimizer.param_groups)
        for optimizer in optimizers
    )


class PreparedSchedule:
    """The user's learning-rate schedule, moved with progress.

    Once for every committed step; where the total batch adapts, once for every reference batch of
    progress, which may be more than once a step. Between two passes over the data: once.
    """

    def __init__(self, schedule: LRScheduler, gate: StepGate) -> None:
        self.schedule = schedule
        self._gate = gate

    def step(self, *args: Any, **options: Any) -> None:
        """Move the schedule on, unless the step under way is not whole.

        What is given besides (a metric, say) is told it once.
        """
        moves = self._gate.schedule_moves()
        for _ in range(min(moves, 1) if args or options else moves):
            self.schedule.step(*args, **options)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the user's schedule."""
        return self.schedule.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of the user's schedule."""
        self.schedule.load_state_dict(state_dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["schedule"], name)
