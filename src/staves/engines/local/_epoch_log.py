"""The line of each epoch: its loss over all ranks, and what `run.log` told of it."""

from __future__ import annotations

from collections import deque
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
        self._logs: deque[dict[str, Any]] = deque()
        self.losses = EpochLosses()  # the supervisor's, once there is one

    def message(self, rank: int, message: dict[str, Any]) -> None:
        """Take in a worker's message, of any kind."""
        kind = message["kind"]
        if kind == "formed":
            self._ranks = len(message["devices"])
        elif kind == "log":
            self._logs.append(message)
        if kind in ("epoch", "log"):
            while self._logs and self._told(self._logs[0]["epoch"] - 1):
                self._show(self._logs.popleft())

    def close(self) -> None:
        """Nothing comes any more: say what is still to be said."""
        while self._logs:
            self._show(self._logs.popleft())

    def _told(self, epoch: int) -> bool:
        """Whether all ranks have told their loss of it: who has told a later one's has."""
        told = self.losses.told
        return epoch < 0 or any(told(e) >= self._ranks for e in range(epoch, self.losses.last + 1))

    def _show(self, log: dict[str, Any]) -> None:
        epoch = log["epoch"] - 1
        values = {"loss": self.losses.mean(epoch), **log["metrics"]}
        shown = ", ".join(f"{k} {v:.4g}" for k, v in values.items() if v is not None)
        covered = self.losses.covered(epoch)
        if covered is not None and covered < 1 and self.losses.told(epoch):
            shown += f" (loss over {min(covered, 0.999):.1%} of the samples: a rank was lost)"
        self._say(f"epoch {log['epoch']}: {shown}")
