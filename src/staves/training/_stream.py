"""A stream of samples (an `IterableDataset`): no length, no indices, its own order.

Every rank reads the whole stream and takes its slices of it by the global cursor, so the order and
the promise of every sample once an epoch are those of any other data set, through every change of
split and of membership. What was read beyond the committed cursor is kept for the steps to come;
a rank that joins or resumes reads up to the cursor and drops what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import islice
from typing import Any, TypeGuard

from torch.utils.data import DataLoader, IterableDataset, default_collate

from staves.errors import InputError, TrainingError
from staves.training._arguments import positive_integer
from staves.training._loader_options import torch_loader
from staves.training._loader_workers import FAILURES, how_it_died
from staves.training._random import RandomStream
from staves.training._sampler import Cursor, batches_of

Chunk = tuple[int, list[Any]]
"""Where in the pass the samples start, and the samples."""

_NOT_OF_A_STREAM = {
    "pin_memory": "leave it out: a stream's batches are put together after they were loaded",
    "persistent_workers": "leave it out: the loader worker of a stream starts anew with every pass",
}


def is_stream(dataset: object) -> TypeGuard[Iterable[Any]]:
    """Whether samples can only be iterated over."""
    if isinstance(dataset, IterableDataset):
        return True
    return hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__")


class StreamSource:
    """What a loader loads from where the data set is a stream (a `Source`).

    Args:
        dataset: yields the samples of a pass each time it is iterated over, alike on every rank.
            `set_epoch(epoch)` is called before each pass, where there is such a method.
        seed: with the epoch, of the random numbers that are drawn while it is read.
        chunk: samples read at once.
        options: of the loader. `length`: samples of a pass, for what is reckoned by it; the pass
            still ends where the stream does.

    Raises:
        InputError: it can be iterated over only once, or an option that a stream cannot have.
    """

    def __init__(self, dataset: Iterable[Any], *, seed: int, chunk: int, options: dict[str, Any]):
        options = dict(options)
        if hasattr(dataset, "__next__"):
            raise InputError(
                f"run.loader: a {type(dataset).__name__} can be read only once",
                hint="give an IterableDataset, whose __iter__ starts a new pass",
            )
        if options.pop("shuffle", False):
            raise InputError(
                "run.loader: shuffle cannot be given: a stream has an order of its own",
                hint="shuffle within the data set; set_epoch(epoch) is called before each pass",
            )
        for name, hint in _NOT_OF_A_STREAM.items():
            if options.pop(name, False):
                raise InputError(f"run.loader: {name} cannot be given for a stream", hint=hint)
        if options.get("num_workers", 0) > 1:
            raise InputError(
                f"run.loader: {options['num_workers']} loader workers for one stream",
                hint="num_workers=1 reads ahead; several would each read the whole stream",
            )
        length = options.pop("length", None)
        if length is None and isinstance(dataset, Sized):
            length = len(dataset)
        elif length is not None:
            positive_integer("run.loader(length)", length, hint="count the samples of a pass")
        self.samples: int | None = length
        drop_last = bool(options.pop("drop_last", False))
        self._collate = options.pop("collate_fn", None) or default_collate
        self._reader = Reader(dataset, seed=seed, chunk=chunk, options=options)
        self.cursor = StreamCursor(self._reader, drop_last=drop_last)

    @property
    def workers(self) -> int:
        """None of which the loader need know: their death is told here."""
        return 0

    def batches_per_epoch(self, batch: int) -> int:
        """Return how many steps of `batch` samples an epoch has.

        Raises:
            TypeError: nobody has said how many samples there are.
        """
        if self.samples is None:
            raise TypeError(
                "the length of a stream is not known: give it as run.loader(stream, length=...)"
            )
        return batches_of(self.samples, batch, drop_last=self.cursor.drop_last)

    def batches(self, issue: Callable[[], Iterator[tuple[int, int, int]]]) -> Iterator[Any]:
        """Yield the batch of each (epoch, start, stop) that is issued."""
        for _epoch, start, stop in issue():
            yield self._collate(self._reader.samples(start, stop))

    def name(self, epoch: int, place: int) -> str:
        """Return the name of the sample at that place of an epoch's order."""
        return f"sample {place} of the stream's pass {epoch}"

    def close(self) -> None:
        """End the loader worker."""
        self._reader.close()


class StreamCursor(Cursor):
    """The cursor of a stream; where it is asked what comes, it reads that far.

    A pass ends where the stream ends, which every rank finds at the same step.
    """

    def __init__(self, reader: Reader, *, drop_last: bool = False) -> None:
        super().__init__(shuffle=False, drop_last=drop_last)
        self._reader = reader

    def _left(self, epoch: int, start: int, batch: int) -> int:
        if epoch != self.epoch:
            return 0  # that pass is over
        stop = self._reader.read(epoch, self.position, start + batch)
        if stop == 0 or (stop < batch and self.drop_last and start == 0):
            raise TrainingError(
                "the stream ended before its first sample"
                if stop == 0
                else f"drop_last leaves nothing of {stop} samples at batch {batch}",
                hint="check what it reads from; each iteration must start a new pass",
            )
        return stop - start


class Reader:
    """Samples [first, stop) of a stream's pass: those that are read and not yet committed."""

    def __init__(
        self, dataset: Iterable[Any], *, seed: int, chunk: int, options: dict[str, Any]
    ) -> None:
        self._pass = _Pass(dataset, seed, chunk)
        self._loader: DataLoader[Chunk] = torch_loader(
            "run.loader", self._pass, batch_size=None, collate_fn=_as_it_is, **options
        )
        self._chunks: Iterator[Chunk] | None = None
        self._kept: list[Any] = []
        self._first = 0
        self._ended = False

    def read(self, epoch: int, first: int, stop: int) -> int:
        """Keep the samples from `first` on, read up to `stop`, and return how far they reach.

        Raises:
            TrainingError: the pass is shorter than it was, or its loader worker died.
        """
        if self._chunks is None or epoch != self._pass.epoch or first < self._first:
            self.close()
            self._pass.epoch, self._pass.start = epoch, first
            self._first, self._ended = first, False
            self._chunks = iter(self._loader)
        while self._first + len(self._kept) < stop and not self._ended:
            self._read_chunk()
        del self._kept[: first - self._first]
        self._first = first
        return first + len(self._kept)

    def samples(self, start: int, stop: int) -> list[Any]:
        """Return those of the samples [start, stop) that are there."""
        return self._kept[start - self._first : stop - self._first]

    def close(self) -> None:
        """Forget what is read; it is read again if it is wanted."""
        self._chunks = None
        self._kept = []

    def _read_chunk(self) -> None:
        reached = self._first + len(self._kept)
        assert self._chunks is not None
        died: str | None = None
        try:
            place, samples = next(self._chunks)
        except StopIteration:
            self._ended = True
            return
        except FAILURES as error:
            died = how_it_died(error, workers=self._loader.num_workers)
            if died is None:
                raise
        if died is not None:
            # Not from within the clause: the error's traceback keeps torch's iterator, and while
            # that lives, torch raises the same error anew, anywhere, as any child process ends.
            self.close()
            raise TrainingError(
                f"the loader worker died behind sample {reached} of the stream's pass"
                f" {self._pass.epoch}",
                hint=died,
            )
        if place != reached:
            raise TrainingError(
                f"the stream ended after {place} samples of pass {self._pass.epoch}, and"
                f" {reached} were trained already",
                hint="it must yield the same samples, in one order, on every rank and every time",
            )
        self._kept += samples


class _Pass(IterableDataset[Chunk]):
    """One pass over a stream from a place on, in chunks; the first one is empty."""

    def __init__(self, dataset: Iterable[Any], seed: int, chunk: int) -> None:
        self.epoch, self.start = 0, 0
        self._dataset, self._seed, self._chunk = dataset, seed, chunk

    def __iter__(self) -> Iterator[Chunk]:
        # One course of random numbers for a pass: the samples come out alike on every rank,
        # wherever it starts to keep them and whatever the training draws meanwhile.
        random = RandomStream(self._seed, self.epoch)
        with random:
            if hasattr(self._dataset, "set_epoch"):
                self._dataset.set_epoch(self.epoch)
            samples = iter(self._dataset)
            place = sum(1 for _ in islice(samples, self.start))
        yield place, []
        while True:
            with random:
                chunk = list(islice(samples, self._chunk))
            if not chunk:
                return
            yield place, chunk
            place += len(chunk)


def _as_it_is(chunk: Any) -> Any:
    return chunk
