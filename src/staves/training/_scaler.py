"""The prepared scaler of fp16 losses: a step that is not finite is void on all ranks alike.

All ranks see the same reduced gradients, so all find the same infinities. Such a step is void: no
optimizer acts, the scale falls, and the same samples come again. Torch's own scaler would leave
them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch.optim import Optimizer

from staves.errors import TrainingError

TRIES = 40
"""Steps in a row that may fail to be finite; a usual scale of 2^16 is at 2^-24 then."""


class ScaledStep(Protocol):
    """What a prepared scaler asks the step under way."""

    def may_step(self) -> bool:
        """Whether the step under way is whole, and not void."""

    def not_finite(self) -> None:
        """The reduced gradients are not finite: the step is void."""


class PreparedScaler:
    """The user's `torch.amp.GradScaler`, which acts when a step is whole.

    Args:
        scaler: of torch; it may be disabled.
        step: the step under way.
        optimizers: all that were prepared, by the time that the first step is whole.
    """

    def __init__(
        self, scaler: torch.amp.GradScaler, step: ScaledStep, optimizers: Sequence[Optimizer]
    ) -> None:
        self.scaler = scaler
        self._step, self._optimizers = step, optimizers
        self._unscaled: set[int] = set()
        self._checked = self._failed = False
        self._tries = 0

    def scale(self, outputs: Any) -> Any:
        """Multiply a loss by the scale: `run.backward(scaler.scale(loss))`."""
        return self.scaler.scale(outputs)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide this optimizer's whole gradients by the scale, once; before they are clipped."""
        if not self.scaler.is_enabled() or not self._step.may_step():
            return
        if id(optimizer) not in self._unscaled:
            self._unscaled.add(id(optimizer))
            self.scaler.unscale_(optimizer)

    def unscale_all(self) -> None:
        """Divide all prepared optimizers' gradients by the scale, once."""
        for optimizer in self._optimizers:
            self.unscale_(optimizer)

    def step(self, optimizer: Optimizer) -> Any:
        """Step the optimizer if the step is whole and all its gradients are finite.

        With several optimizers none acts where one has gradients that are not: the samples come
        again, and half an update must not have been done.
        """
        if not self.scaler.is_enabled():
            return optimizer.step()
        if not self._step.may_step():
            return None
        if not self._checked:
            self.unscale_all()
            self._checked = True
            self._failed = any(self._found_infinity(each) for each in self._optimizers)
            if self._failed:
                self._step.not_finite()
                return None
        return self.scaler.step(optimizer)

    def update(self) -> None:
        """Adjust the scale after a step that was whole, or that was void for its infinities.

        Raises:
            TrainingError: no scale makes the gradients finite.
        """
        if not self.scaler.is_enabled():
            return
        if not self._checked:  # accumulating, or void for another reason
            self._unscaled.clear()
            return
        self._tries = self._tries + 1 if self._failed else 0
        self._checked = self._failed = False
        self._unscaled.clear()
        self.scaler.update()
        if self._tries >= TRIES:
            raise TrainingError(
                f"the gradients are not finite at any loss scale, {TRIES} times in a row",
                hint="the batch or the model yields infinities or nan by itself: look at its loss",
            )

    def unscaled(self, loss: torch.Tensor) -> torch.Tensor:
        """Return a scaled loss as it was; no device is waited for."""
        scale = self.scaler._get_scale_async() if self.scaler.is_enabled() else None
        return loss if scale is None else loss / scale

    def get_scale(self) -> float:
        """Return the factor of the loss."""
        return float(self.scaler.get_scale())

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the user's scaler."""
        return self.scaler.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of the user's scaler."""
        self.scaler.load_state_dict(state_dict)

    def _found_infinity(self, optimizer: Optimizer) -> bool:
        found = self.scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        return any(bool(each.item()) for each in found.values())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["scaler"], name)
