"""The loss of an epoch, added up over the ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class _Epoch:
    """What members have told: (sum of losses, samples) each, and who has told all of its part."""

    attempt: int
    reached: int = 0
    parts: dict[int, tuple[float, int]] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)


class EpochLosses:
    """The mean loss of each epoch, from what every rank tells of its samples.

    A rank tells its part so far now and then, when it leaves, and at the epoch's end. Of a rank
    that was killed the last fraction of a second is missing: `covered` says how much.
    """

    def __init__(self) -> None:
        self._epochs: dict[int, _Epoch] = {}

    def take(self, member: int, attempt: int, message: Mapping[str, Any]) -> None:
        """Take in a member's part of an epoch so far; it replaces what that member told before.

        `message` has `epoch` (counted from 0), `loss` (a sum over `samples`), `reached` (samples of
        the epoch that all ranks have committed), and is of kind "epoch" where the epoch is over. A
        later attempt trains the epoch again, so that what an earlier one told of it is void.
        """
        epoch = self._epochs.get(message["epoch"])
        if epoch is None or epoch.attempt < attempt:
            epoch = self._epochs[message["epoch"]] = _Epoch(attempt)
        epoch.parts[member] = message["loss"], message["samples"]
        epoch.reached = max(epoch.reached, message["reached"])
        if message["kind"] == "epoch":
            epoch.whole.add(member)

    def told(self, epoch: int) -> int:
        """Return how many ranks have come to the epoch's end."""
        return len(self._epochs[epoch].whole) if epoch in self._epochs else 0

    def mean(self, epoch: int) -> float | None:
        """Return the mean loss of an epoch; None where no sample of it is known."""
        loss, samples = self._sum(epoch)
        return loss / samples if samples else None

    def covered(self, epoch: int) -> float | None:
        """Return the share of the epoch's committed samples that `mean` is over, 0 to 1."""
        _, samples = self._sum(epoch)
        reached = self._epochs[epoch].reached if samples else 0
        return min(1.0, samples / reached) if reached else None

    @property
    def first(self) -> int:
        """The first epoch that some rank has come to the end of."""
        return min((e for e in self._epochs if self.told(e)), default=0)

    @property
    def last(self) -> int:
        """The last epoch that some rank has come to the end of."""
        return max((e for e in self._epochs if self.told(e)), default=0)

    def _sum(self, epoch: int) -> tuple[float, int]:
        parts = self._epochs[epoch].parts.values() if epoch in self._epochs else ()
        return sum(loss for loss, _ in parts), sum(samples for _, samples in parts)
