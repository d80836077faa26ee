"""The loss of an epoch, added up over the ranks."""

from __future__ import annotations


class EpochLosses:
    """The mean loss of each epoch, from what every rank tells of its samples."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[float, int, int]] = {}

    def add(self, epoch: int, loss: float, samples: int) -> None:
        """Take in a rank's sum of losses over its samples of an epoch (counted from 0)."""
        total, count, told = self._sums.get(epoch, (0.0, 0, 0))
        self._sums[epoch] = total + loss, count + samples, told + 1

    def told(self, epoch: int) -> int:
        """Return how many ranks have told."""
        return self._sums.get(epoch, (0.0, 0, 0))[2]

    def mean(self, epoch: int) -> float | None:
        """Return the mean loss of an epoch; None where no sample of it is known."""
        total, count, _ = self._sums.get(epoch, (0.0, 0, 0))
        return total / count if count else None

    @property
    def first(self) -> int:
        """The first epoch that is known."""
        return min(self._sums, default=0)

    @property
    def last(self) -> int:
        """The last epoch that is known."""
        return max(self._sums, default=0)
