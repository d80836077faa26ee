"""When a run saves: now and then, at its end, and where the supervisor wants to end the job."""

from __future__ import annotations

import time
from collections.abc import Callable

from staves.training._checkpoint import Checkpoints
from staves.training._progress import Progress
from staves.training._teller import Teller


class Saving:
    """What the elected rank does about checkpoints; `checkpoints` is None where none are wanted."""

    def __init__(self, progress: Progress, teller: Teller) -> None:
        self.checkpoints: Checkpoints | None = None
        self._progress, self._teller = progress, teller
        self._for_good = False

    @property
    def folder(self) -> str | None:
        """Where the checkpoints go."""
        return None if self.checkpoints is None else str(self.checkpoints.folder.absolute())

    def is_due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        steps = self._progress.figures.steps
        return self.checkpoints is not None and steps > 0 and self.checkpoints.is_due()

    def save(self, *, wait: bool) -> None:
        """Save the committed step, if checkpoints are wanted; `wait` until it is on disk."""
        if self.checkpoints is not None:
            step = self._progress.figures.steps
            self.checkpoints.save(self._progress.capture(), step=step, wait=wait)

    def save_for_good(self, tell_progress: Callable[[], None]) -> None:
        """Save, say so, and pass no boundary any more: the supervisor ends the job here.

        A step needs every rank's gradients. As long as rank 0 stays here nobody commits a further
        one, so this boundary is the job's last on all ranks, however far each of them has come.
        """
        if not self._for_good:
            self._for_good = True
            tell_progress()
            self.save(wait=True)
            self._teller.saved(self.checkpoints, step=self._progress.figures.steps)
        time.sleep(0.005)
