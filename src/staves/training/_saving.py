"""When a run saves: now and then, at its end, and where the supervisor wants to end the job."""

from __future__ import annotations

import time
from collections.abc import Callable

from staves.training._checkpoint import Checkpoints
from staves.training._exchange import Exchange
from staves.training._measuring import CADENCE
from staves.training._progress import Progress
from staves.training._teller import Teller


class Saving:
    """What the elected rank does about checkpoints; `checkpoints` is None where none are wanted."""

    def __init__(self, progress: Progress, teller: Teller) -> None:
        self.checkpoints: Checkpoints | None = None
        self._progress, self._teller = progress, teller
        self._for_good = False
        self._together_at: int | None = None

    @property
    def folder(self) -> str | None:
        """Where the checkpoints go."""
        return None if self.checkpoints is None else str(self.checkpoints.folder.absolute())

    @property
    def together(self) -> bool:
        """Whether a state needs all ranks: each holds a part of the model."""
        return self._progress.state.sharding is not None

    @property
    def may_stay(self) -> bool:
        """Whether rank 0 may stay at this boundary to end the job: what it needs is there."""
        saved = self._together_at == self._progress.figures.steps
        return saved or not self.together or self.checkpoints is None

    def is_due(self) -> bool:
        """Whether it is time for the next checkpoint, of a rank that holds the whole state."""
        return not self.together and self._is_time()

    def _is_time(self) -> bool:
        steps = self._progress.figures.steps
        return self.checkpoints is not None and steps > 0 and self.checkpoints.is_due()

    def due_together(self, exchange: Exchange | None, *, rank: int, wanted: bool) -> bool:
        """Whether all ranks take part in a checkpoint at this boundary, of a sharded model.

        Rank 0 knows when it is time (or `wanted`), and sets a flag for the cadence after, as for
        decisions (`_measuring.py`): all see it or none.

        Raises:
            Interrupted: the generation has broken.
        """
        step = self._progress.figures.steps
        if self.checkpoints is None or not self.together or step == self._together_at:
            return False
        if exchange is None:
            due = wanted or self._is_time()
        elif step % CADENCE:
            due = False
        else:
            due = exchange.flagged(f"save/{step}")
            if not due and rank == 0 and (wanted or self._is_time()):
                exchange.raise_flag(f"save/{step + CADENCE}")
        if due:
            self._together_at = step
        return due

    def save(self, *, wait: bool, writes: bool = True) -> None:
        """Save the committed step, if checkpoints are wanted; `wait` until it is on disk.

        Of a sharded model all ranks come here, and one of them `writes`.
        """
        if self.checkpoints is not None:
            step, state = self._progress.figures.steps, self._progress.capture()
            if writes:
                self.checkpoints.save(state, step=step, wait=wait)

    def save_for_good(self, tell_progress: Callable[[], None]) -> None:
        """Save, say so, and pass no boundary any more: the supervisor ends the job here.

        A step needs every rank's gradients. As long as rank 0 stays here nobody commits a further
        one, so this boundary is the job's last on all ranks, however far each of them has come.
        """
        if not self._for_good:
            self._for_good = True
            tell_progress()
            if not self.together:
                self.save(wait=True)
            elif self.checkpoints is not None:
                self.checkpoints.join()
            self._teller.saved(self.checkpoints, step=self._progress.figures.steps)
        time.sleep(0.005)
