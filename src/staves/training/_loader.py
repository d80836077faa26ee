"""The prepared data loader: each rank's share of each step's batch, by tickets.

A ticket says which samples of which step a rank loads. Tickets are issued ahead of the training
loop when loader workers prefetch; where the plan changes, those not yet used are dropped and issued
again from the committed cursor. Loader workers live on through changes of plan and of epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from staves.errors import InputError, TrainingError
from staves.training._planner import Plan
from staves.training._random import SampleSeeded, draws_at_random
from staves.training._sampler import Cut, GlobalCursor

_OURS = {
    "batch_size": "the total batch is staves.init(batch_size=...), and Staves splits it",
    "sampler": "Staves samples: every sample once an epoch, over all devices",
    "batch_sampler": "Staves samples: every sample once an epoch, over all devices",
}


@dataclass(frozen=True, slots=True)
class Ticket:
    """One micro-batch of one rank: samples [start, stop) of the epoch's permutation.

    A ticket without samples still loads some (`stand_in`), so that user code has something to run
    on a rank that only takes part; they weigh nothing.
    """

    plan: int
    cut: Cut
    micro: int
    micro_steps: int
    start: int
    stop: int
    local_batch: int

    @property
    def samples(self) -> int:
        """How many samples count."""
        return self.stop - self.start

    @property
    def last(self) -> bool:
        """Whether this is the step's last micro-batch: the one that reduces and updates."""
        return self.micro == self.micro_steps - 1


class LoaderHost(Protocol):
    """What the loader asks the run."""

    def plan_for(self, step: int) -> Plan:
        """Return the plan of that step."""

    def before_batch(self) -> None:
        """Commit what is done and decide what comes."""

    def begin(self, ticket: Ticket) -> None:
        """The batch of this ticket is about to be used."""

    def end_of_epoch(self) -> None:
        """All samples of the epoch are committed."""

    @property
    def complete(self) -> bool:
        """Whether nothing more is to be trained, also where samples of the epoch are left."""

    @property
    def rank(self) -> int:
        """This process's rank in the generation in force."""

    @property
    def committed_steps(self) -> int:
        """Steps whose update has been applied."""


class Loader:
    """What `run.loader` returns: iterate over it inside `run.epochs`."""

    def __init__(
        self,
        dataset: Dataset[Any],
        host: LoaderHost,
        *,
        seed: int,
        reference_batch: int,
        batch: int,
        place: Callable[[Any], Any],
        options: dict[str, Any],
    ) -> None:
        options = dict(options)
        for name, reason in _OURS.items():
            if options.pop(name, None) is not None:
                raise InputError(f"run.loader: {name} cannot be given", hint=reason)
        if isinstance(dataset, DataLoader):
            raise InputError(
                "run.loader: this is a DataLoader",
                hint="give its data set and options: run.loader(dataset, num_workers=...)",
            )
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
            raise InputError(
                "run.loader: a data set without length and indices is not supported yet",
                hint="give a map-style data set: one with __len__ and __getitem__",
            )
        length = len(dataset)
        if length == 0:
            raise InputError("run.loader: the data set is empty", hint="check its path")
        shuffle = bool(options.pop("shuffle", True))
        drop_last = bool(options.pop("drop_last", False))
        self.cursor = GlobalCursor(length, seed, shuffle=shuffle, drop_last=drop_last)
        if drop_last and length < max(reference_batch, batch):
            raise _nothing_left(length, max(reference_batch, batch))
        self.dataset = dataset
        self._host, self._place = host, place
        self._reference_batch = reference_batch
        self._stand_in = 1
        self._issued: deque[Ticket] = deque()
        self._next_cut: tuple[int, int, int] = (0, 0, 0)  # step, epoch, start
        self._stale = 0
        self._data: Iterator[Any] | None = None
        self._seeded = draws_at_random(dataset)
        self._torch_loader: DataLoader[Any] = DataLoader(
            SampleSeeded(dataset, seed) if self._seeded else dataset,
            batch_sampler=_IndexLists(self),
            **options,
        )

    def __len__(self) -> int:
        """Return the steps of an epoch at the reference batch; constant, so schedules may use
        it."""
        return self.cursor.batches_per_epoch(self._reference_batch)

    def stand_in_samples(self, count: int) -> None:
        """Set how many samples a rank without any loads to take part (BatchNorm needs two)."""
        self._stand_in = count

    def __iter__(self) -> Iterator[Any]:
        while True:
            self._host.before_batch()
            if not self.unfinished():
                if self.cursor.position == 0 and not self._host.complete:
                    # Such passes make no progress: there might be no end of them.
                    batch_size = self._host.plan_for(self._host.committed_steps).batch
                    raise _nothing_left(self.cursor.length, batch_size)
                self._host.end_of_epoch()
                return
            batch, ticket = self._fetch()
            batch = self._place(batch)
            self._host.begin(ticket)
            yield batch
            for _ in range(ticket.micro_steps - 1):
                batch, ticket = self._fetch()
                self._host.begin(ticket)
                yield self._place(batch)

    def reissue(self) -> None:
        """Drop the tickets that are out, and issue again from the committed cursor."""
        cursor = self.cursor
        self._next_cut = (self._host.committed_steps, cursor.epoch, cursor.position)
        self._stale = len(self._issued)

    def close(self) -> None:
        """End the loader workers; what they were to load is issued again if they are wanted."""
        self._data = None
        self._issued.clear()
        self.reissue()

    def unfinished(self) -> bool:
        """Whether samples of the epoch under way are still to come, and wanted."""
        if self._host.complete:
            return False
        plan, cursor = self._host.plan_for(self._host.committed_steps), self.cursor
        return cursor.cut(plan.local_batches, epoch=cursor.epoch, start=cursor.position) is not None

    def _fetch(self) -> tuple[Any, Ticket]:
        if self._data is None:
            self._data = iter(self._torch_loader)
        while True:
            try:
                batch = next(self._data)
            except RuntimeError as error:
                raise self._loading_failed(error) from error
            ticket = self._issued.popleft()
            if self._stale == 0:
                return batch, ticket
            self._stale -= 1

    def _loading_failed(self, error: RuntimeError) -> Exception:
        """Say which samples a dead loader worker was loading; other errors stay as they are."""
        if "DataLoader worker" not in str(error) or not self._issued:
            return error
        ticket = self._issued[0]
        first = self.cursor.indices(ticket.cut.epoch, ticket.start, ticket.start + 1).tolist()
        return TrainingError(
            f"a loader worker died near sample {first[0] if first else '?'} of the data set"
            f" (epoch {ticket.cut.epoch}, places {ticket.start} to {ticket.stop} of its order)",
            hint=" ".join(str(error).split())[:200],
        )

    def issue(self) -> Iterator[list[Any]]:
        """Issue tickets without end, and yield the indices of each; the loader stops asking."""
        while True:
            step, epoch, start = self._next_cut
            plan = self._host.plan_for(step)
            cut = self.cursor.cut(plan.local_batches, epoch=epoch, start=start)
            if cut is None:
                self._next_cut = (step, epoch + 1, 0)
                continue
            issued_from = self._next_cut = (step + 1, epoch, cut.stop)
            bounds = cut.micro_bounds(self._host.rank, plan.micro_steps)
            local = cut.local_batches[self._host.rank]
            for micro, (first, stop) in enumerate(bounds):
                self._issued.append(
                    Ticket(plan.number, cut, micro, plan.micro_steps, first, stop, local)
                )
                if first == stop:  # something to run on; it will weigh nothing
                    first, stop = cut.start, min(cut.start + self._stand_in, self.cursor.length)
                places = self.cursor.indices(epoch, first, stop).tolist()
                yield [(epoch, index) for index in places] if self._seeded else places
                if self._next_cut is not issued_from:
                    break  # issued again from elsewhere meanwhile


def _nothing_left(length: int, batch: int) -> InputError:
    return InputError(
        f"run.loader: drop_last leaves nothing of {length} samples at batch {batch}",
        hint="choose a batch no larger than the data set, or leave drop_last out",
    )


class _IndexLists:
    """The face of a batch sampler that DataLoader wants."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[list[Any]]:
        return self._loader.issue()


def place_on(device: torch.device) -> Callable[[Any], Any]:
    """Return a function that moves the tensors of a batch (nested as it may be) to `device`."""

    def place(batch: Any) -> Any:
        if isinstance(batch, torch.Tensor):
            return batch.to(device, non_blocking=True)
        if isinstance(batch, dict):
            return {key: place(value) for key, value in batch.items()}
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*(place(value) for value in batch))
        if isinstance(batch, (list, tuple)):
            return type(batch)(place(value) for value in batch)
        return batch

    return (lambda batch: batch) if device.type == "cpu" else place
