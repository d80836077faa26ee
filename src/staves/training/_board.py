"""TensorBoard, through torch's own writer: what rank 0 knows of the run, over its steps."""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from staves.errors import InputError, StavesError

if TYPE_CHECKING:
    from torch.utils.tensorboard.writer import SummaryWriter

    from staves.training._figures import Figures
    from staves.training._planner import Plan

VARIABLE = "STAVES_TENSORBOARD"


class Board:
    """Writes scalars into a folder; only the rank that has something to write opens a file there.

    Args:
        folder: TensorBoard's log folder of this run.

    Raises:
        InputError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError:
            raise InputError(
                "init(tensorboard): TensorBoard is not installed",
                hint="pip install tensorboard, or leave the argument out",
            ) from None
        self._make: type[SummaryWriter] = SummaryWriter
        self._folder = folder
        self._writer: SummaryWriter | None = None

    @classmethod
    def wanted(cls, folder: str | Path | None) -> Board | None:
        """Return the board in `STAVES_TENSORBOARD` or else in `folder`; None where neither is."""
        where = os.environ.get(VARIABLE) or folder
        return None if where is None else cls(Path(where))

    def write(self, values: Mapping[str, Any], *, step: int) -> None:
        """Write what is known of `values` (None is not) at that step.

        Raises:
            StavesError: the folder cannot be written.
        """
        try:
            if self._writer is None:
                make: Any = self._make
                self._writer = make(str(self._folder))
                atexit.register(self._writer.close)  # what it still holds goes to disk
            writer: Any = self._writer
            for name, value in values.items():
                if value is not None:
                    writer.add_scalar(name, value, step)
        except OSError as error:
            raise StavesError(
                f"tensorboard: {self._folder}: {error.strerror or error}",
                hint="name a folder that you may write",
            ) from None


def scalars(figures: Figures, plan: Plan, loss: float | None) -> dict[str, float | None]:
    """Return what a run shows on its board while the plan is in use.

    Args:
        figures: of rank 0.
        plan: the plan.
        loss: mean of the epoch so far, over the samples of rank 0.
    """
    step = figures.step_percentiles(last=200, of_plan=True)
    seconds = step["p50"] if step else None
    adaptive = figures.adaptive()
    values: dict[str, float | None] = {
        "training/loss": loss,
        "training/batch": plan.batch,
        "training/noise_scale": adaptive["noise_scale"],
        "training/learning_rate_factor": adaptive["learning_rate_factor"],
        "speed/step_seconds": seconds,
        "speed/predicted_step_seconds": plan.predicted_seconds,
        "speed/even_step_seconds": figures.even(plan)[0],
        "speed/samples_per_second": plan.batch / seconds if seconds else None,
        "speed/goodput": figures.goodput(plan),
    }
    idle = plan.idle_share or [None] * len(plan.local_batches)
    for name, samples, share in zip(figures.devices, plan.local_batches, idle, strict=True):
        values[f"local_batch/{name}"] = samples
        values[f"idle_share/{name}"] = share
    return values
