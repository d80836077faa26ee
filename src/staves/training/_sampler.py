"""The global-cursor sampler: every sample once an epoch, in one order, whatever the split.

One permutation for each (seed, epoch); one cursor for the whole job. A step takes the next B
indices, and rank i the slice that the prefix sums of the local batches give it. Neither the number
of ranks nor their split enters the state, so both may change at any step. The cursor moves when a
step is committed, never before: a step that is voided is cut again from the same place.

Pure: numpy only, no torch, no clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


def permutation(seed: int, epoch: int, length: int, *, shuffle: bool = True) -> NDArray[np.int64]:
    """Return the order of the `length` samples in this epoch, shape (length,).

    A pure function of its arguments: the same on every rank, after every restart.
    """
    if not shuffle:
        return np.arange(length, dtype=np.int64)
    entropy = np.random.SeedSequence([seed & (2**64 - 1), epoch])
    return np.random.Generator(np.random.PCG64(entropy)).permutation(length).astype(np.int64)


def apportion(local_batches: Sequence[int], total: int) -> tuple[int, ...]:
    """Cut a batch of `total` samples in the proportions of `local_batches`, exactly.

    Largest remainders, ties to the lower rank. For total = sum(local_batches) it is the identity;
    for the last, short batch of an epoch no rank gets more than its share of a full one.

    Raises:
        ValueError: the local batches are negative or sum to 0, or `total` is negative.
    """
    shares = [int(share) for share in local_batches]
    batch = sum(shares)
    if total < 0 or batch == 0 or min(shares) < 0:
        raise ValueError(f"cannot cut {total} samples in the proportions {list(local_batches)}")
    if total == batch:
        return tuple(shares)
    parts, remainders = zip(*(divmod(share * total, batch) for share in shares), strict=True)
    missing = total - sum(parts)
    first = sorted(range(len(shares)), key=lambda rank: -remainders[rank])[:missing]
    return tuple(part + (rank in first) for rank, part in enumerate(parts))


@dataclass(frozen=True, slots=True)
class Cut:
    """One step's place in the epoch: samples [start, stop) of the permutation, cut by rank."""

    epoch: int
    start: int
    local_batches: tuple[int, ...]

    @property
    def batch(self) -> int:
        """The total batch of this step, in samples."""
        return sum(self.local_batches)

    @property
    def stop(self) -> int:
        """The cursor after this step."""
        return self.start + self.batch

    def bounds(self, rank: int) -> tuple[int, int]:
        """Return [start, stop) of `rank`'s samples in the permutation."""
        start = self.start + sum(self.local_batches[:rank])
        return start, start + self.local_batches[rank]

    def micro_bounds(self, rank: int, micro_steps: int) -> list[tuple[int, int]]:
        """Return `rank`'s [start, stop) for each of its micro-batches; some may be empty."""
        start, stop = self.bounds(rank)
        edges = [start + (stop - start) * m // micro_steps for m in range(micro_steps + 1)]
        return list(pairwise(edges))


class Cursor(ABC):
    """The position of a job in its data: (epoch, position), and what comes next.

    Args:
        shuffle: whether each pass has an order of its own.
        drop_last: leave out the last batch of an epoch where it is short.
    """

    length: int | None = None
    """Samples of a pass; None where only its end tells."""

    def __init__(self, *, shuffle: bool, drop_last: bool) -> None:
        self.shuffle, self.drop_last = shuffle, drop_last
        self.epoch = 0
        self.position = 0

    @abstractmethod
    def _left(self, epoch: int, start: int, batch: int) -> int:
        """Return how many samples are left there; at least `batch` may stand for all of more."""

    def cut(self, local_batches: Sequence[int], *, epoch: int, start: int) -> Cut | None:
        """Return the step that starts there, with the full or the last short batch; None at the
        end."""
        batch = sum(local_batches)
        left = self._left(epoch, start, batch)
        if left <= 0 or (left < batch and self.drop_last):
            return None
        return Cut(epoch, start, apportion(local_batches, min(batch, left)))

    def commit(self, cut: Cut) -> None:
        """Move past a step whose update has been applied.

        Raises:
            ValueError: the step does not start at the cursor; nothing moves.
        """
        if (cut.epoch, cut.start) != (self.epoch, self.position):
            raise ValueError(
                f"a step at epoch {cut.epoch}, sample {cut.start} cannot be committed: "
                f"the cursor is at epoch {self.epoch}, sample {self.position}"
            )
        self.position = cut.stop

    def next_epoch(self) -> None:
        """Begin the next pass over the data."""
        self.epoch += 1
        self.position = 0


class GlobalCursor(Cursor):
    """The cursor of a data set whose samples can be asked for by index.

    Args:
        length: samples in the data set.
        seed: of the permutations.
        shuffle: False keeps the data set's own order.
        drop_last: leave out the last batch of an epoch where it is short.
    """

    length: int

    def __init__(
        self, length: int, seed: int, *, shuffle: bool = True, drop_last: bool = False
    ) -> None:
        if length < 1:
            raise ValueError("a data set needs at least one sample")
        super().__init__(shuffle=shuffle, drop_last=drop_last)
        self.length, self.seed = length, seed
        self._order: tuple[int, NDArray[np.int64]] | None = None

    def indices(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        """Return the samples at [start, stop) of that epoch's permutation."""
        if self._order is None or self._order[0] != epoch:
            order = permutation(self.seed, epoch, self.length, shuffle=self.shuffle)
            self._order = (epoch, order)
        return self._order[1][start:stop]

    def batches_per_epoch(self, batch: int) -> int:
        """Return how many steps of `batch` samples an epoch has."""
        return batches_of(self.length, batch, drop_last=self.drop_last)

    def _left(self, epoch: int, start: int, batch: int) -> int:
        return self.length - start


def batches_of(samples: int, batch: int, *, drop_last: bool) -> int:
    """Return how many steps of `batch` samples a pass over `samples` has."""
    return samples // batch if drop_last else -(-samples // batch)
