"""The line of each epoch: its loss over all ranks, and what `run.log` told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staves.engines.local._losses import EpochLosses


class EpochLog:
    """Says a line for each epoch that the script has logged.

    Args:
        say: called with each line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._ranks = 0
        self._log: dict[str, Any] | None = None
        self.losses = EpochLosses()  # the supervisor's, once there is one

    def message(self, rank: int, message: dict[str, Any]) -> None:
        """Take in a worker's message, of any kind."""
        kind = message["kind"]
        if kind == "say":
            self._ranks = len(message.get("local_batches", ())) or self._ranks
        elif kind == "epoch":
            self._show(whole_only=True)
        elif kind == "log":
            self._show(whole_only=False)
            self._log = message
            self._show(whole_only=True)

    def close(self) -> None:
        """Nothing comes any more: say what is still to be said."""
        self._show(whole_only=False)

    def _show(self, *, whole_only: bool) -> None:
        """Say the epoch's line once all ranks have told their loss of it, or it is late."""
        log = self._log
        if log is None or (whole_only and self.losses.told(log["epoch"] - 1) < self._ranks):
            return
        self._log = None
        epoch = log["epoch"] - 1
        values = {"loss": self.losses.mean(epoch), **log["metrics"]}
        shown = ", ".join(f"{k} {v:.4g}" for k, v in values.items() if v is not None)
        covered = self.losses.covered(epoch)
        if covered is not None and covered < 1 and self.losses.told(epoch):
            shown += f" (loss over {min(covered, 0.999):.1%} of the samples: a rank was lost)"
        self._say(f"epoch {log['epoch']}: {shown}")
