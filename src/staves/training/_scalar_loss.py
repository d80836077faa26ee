"""The loss of a batch, as `run.backward` takes it."""

from __future__ import annotations

from typing import Any

import torch

from staves.errors import TrainingError


def check_loss(loss: Any) -> None:
    """Refuse what is no loss.

    Raises:
        TrainingError: not a tensor of one number.
    """
    if isinstance(loss, torch.Tensor) and loss.numel() == 1:
        return
    what = f"a {type(loss).__name__}"
    if isinstance(loss, torch.Tensor):
        what = f"of shape {tuple(loss.shape)}"
    raise TrainingError(
        f"run.backward: the loss is {what}, not a tensor of one number",
        hint="give the mean over the batch's samples, as the criterion returns it",
    )


def backward(loss: torch.Tensor, scale: float) -> None:
    """Compute the gradients of `scale` times the loss, without the operation more on either way.

    Raises:
        TrainingError: the loss has none.
    """
    if not loss.requires_grad:
        raise TrainingError(
            "run.backward: the loss has no gradient: it does not depend on the parameters",
            hint="compute it by the model, outside of torch.no_grad() and without detach() or"
            " item()",
        )
    if scale == 1.0:
        loss.backward()  # type: ignore[no-untyped-call]
    else:
        loss.backward(torch.full_like(loss, scale))  # type: ignore[no-untyped-call]
