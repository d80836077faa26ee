"""The losses of whole epochs, over all ranks, as the supervisor has added them up."""

from __future__ import annotations

import contextlib
import time

from staves.training._crew import Crew
from staves.training._figures import Figures
from staves.training._interrupt import Interrupted, poll

_WITHIN = 1.0  # seconds that a report waits for the last epoch's loss over all ranks


def learn_losses(figures: Figures, crew: Crew) -> None:
    """Take over the first and the last epoch's loss; wait for the last one for a moment."""
    epoch = figures.epochs - 1
    if epoch < 0:
        return
    until = time.monotonic() + _WITHIN
    with contextlib.suppress(Interrupted):
        poll(lambda: epoch in crew.losses or time.monotonic() > until, crew.interrupted)
    figures.epoch_loss = crew.losses.get(epoch, figures.epoch_loss)
    figures.first_epoch_loss = crew.losses.get(0, figures.first_epoch_loss)
