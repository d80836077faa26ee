"""A map-style data set: samples by index, in the permutation of each epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset

from staves.errors import InputError
from staves.training._loader_options import torch_loader
from staves.training._random import SampleSeeded, draws_at_random
from staves.training._sampler import GlobalCursor


class IndexedSource:
    """What a loader loads from where the data set has a length and indices (a `Source`).

    Its loader workers live on through changes of plan and of epoch.

    Args:
        dataset: of the samples.
        seed: of their order.
        least_batch: the fewest samples of a step, but for the last of a pass.
        options: of torch's loader.
        caller: who was given them, for messages.

    Raises:
        InputError: it has neither, or is empty, or torch refuses the options.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        seed: int,
        least_batch: int,
        options: dict[str, Any],
        caller: str = "run.loader",
    ) -> None:
        options = dict(options)
        if not hasattr(dataset, "__len__"):
            raise InputError(
                f"{caller}: a data set with indices and without length",
                hint="give it __len__; or make it an IterableDataset, which is read in its own"
                " order",
            )
        if options.pop("length", None) is not None:
            raise InputError(
                f"{caller}: length is for a stream",
                hint="leave it out: this data set has a length of its own",
            )
        length = len(dataset)
        if length == 0:
            raise InputError(f"{caller}: the data set is empty", hint="check its path")
        shuffle = bool(options.pop("shuffle", True))
        drop_last = bool(options.pop("drop_last", False))
        if drop_last and length < least_batch:
            raise InputError(
                f"{caller}: drop_last leaves nothing of {length} samples at batch {least_batch}",
                hint="choose a batch no larger than the data set, or leave drop_last out",
            )
        self.cursor = GlobalCursor(length, seed, shuffle=shuffle, drop_last=drop_last)
        self.samples: int | None = length
        self._seeded = draws_at_random(dataset)
        self._issue: Callable[[], Iterator[tuple[int, int, int]]] = lambda: iter(())
        self._torch_loader: DataLoader[Any] = torch_loader(
            caller,
            SampleSeeded(dataset, seed) if self._seeded else dataset,
            batch_sampler=_IndexLists(self),
            **options,
        )

    @property
    def workers(self) -> int:
        """Loader workers."""
        return self._torch_loader.num_workers

    def batches_per_epoch(self, batch: int) -> int:
        """Return how many steps of `batch` samples an epoch has."""
        return self.cursor.batches_per_epoch(batch)

    def batches(self, issue: Callable[[], Iterator[tuple[int, int, int]]]) -> Iterator[Any]:
        """Yield the batch of each (epoch, start, stop) that is issued."""
        self._issue = issue
        return iter(self._torch_loader)

    def index_lists(self) -> Iterator[list[Any]]:
        """Yield the indices of each batch; the loader stops asking."""
        for epoch, start, stop in self._issue():
            places = self.cursor.indices(epoch, start, stop).tolist()
            yield [(epoch, index) for index in places] if self._seeded else places

    def name(self, epoch: int, place: int) -> str:
        """Return the name of the sample at that place of an epoch's order."""
        first = self.cursor.indices(epoch, place, place + 1).tolist()
        return f"sample {first[0] if first else '?'} of the data set"

    def close(self) -> None:
        """Nothing is kept here: loader workers end with the iterator."""


class _IndexLists:
    """The face of a batch sampler that DataLoader wants."""

    def __init__(self, source: IndexedSource) -> None:
        self._source = source

    def __iter__(self) -> Iterator[list[Any]]:
        return self._source.index_lists()
