"""The prepared data loader: each rank's share of each step's batch, by tickets.

Where samples come from, by index or from a stream, is the business of a source.
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
from torch.utils.data import Dataset

from staves.errors import InputError, TrainingError
from staves.training._indexed import IndexedSource
from staves.training._loader_options import allowed_options, check_data
from staves.training._loader_workers import FAILURES, how_it_died
from staves.training._planner import Plan
from staves.training._sampler import Cursor, Cut
from staves.training._stream import StreamSource, is_stream


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


class Source(Protocol):
    """Where the samples come from."""

    @property
    def cursor(self) -> Cursor:
        """The position of the job in them."""

    @property
    def samples(self) -> int | None:
        """How many an epoch has; None where nobody has said it."""

    @property
    def workers(self) -> int:
        """Loader workers whose death the loader is to tell; 0 where the source does so itself."""

    def batches_per_epoch(self, batch: int) -> int:
        """Return how many steps of `batch` samples an epoch has."""

    def batches(self, issue: Callable[[], Iterator[tuple[int, int, int]]]) -> Iterator[Any]:
        """Yield the batch of each (epoch, start, stop) that is issued."""

    def name(self, epoch: int, place: int) -> str:
        """Return the name of the sample at that place of an epoch's order."""

    def close(self) -> None:
        """Let go of what is loaded ahead."""


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
        check_data("run.loader", dataset, instead="run.loader(dataset, num_workers=...)")
        options = allowed_options("run.loader", options, batch="staves.init(batch_size=...)")
        self._source: Source = (
            StreamSource(dataset, seed=seed, chunk=reference_batch, options=options)
            if is_stream(dataset)
            else IndexedSource(
                dataset, seed=seed, least_batch=max(reference_batch, batch), options=options
            )
        )
        self.cursor = self._source.cursor
        self._host, self._place = host, place
        self._reference_batch = reference_batch
        self._stand_in = 1
        self._issued: deque[Ticket] = deque()
        self._next_cut: tuple[int, int, int] = (0, 0, 0)  # step, epoch, start
        self._stale = 0
        self._data: Iterator[Any] | None = None

    def __len__(self) -> int:
        """Return the steps of an epoch at the reference batch; constant, so schedules may use it.

        Raises:
            TypeError: the data set is a stream, and nobody has said how many samples it has.
        """
        return self._source.batches_per_epoch(self._reference_batch)

    @property
    def samples(self) -> int | None:
        """The samples of an epoch; None for a stream of which nobody has said it."""
        return self._source.samples

    @property
    def steps(self) -> int | None:
        """The same as `len(loader)`, or None."""
        return self.steps_at(self._reference_batch)

    def steps_at(self, batch: int) -> int | None:
        """Return the steps of `batch` samples in an epoch; None where its length is unknown."""
        return None if self.samples is None else self._source.batches_per_epoch(batch)

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
                    raise InputError(
                        f"run.loader: a pass over the data has no batch of {batch_size} samples",
                        hint="choose a batch no larger than the data set, or leave drop_last out",
                    )
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
        self._source.close()
        self.reissue()

    def unfinished(self) -> bool:
        """Whether samples of the epoch under way are still to come, and wanted."""
        if self._host.complete:
            return False
        plan, cursor = self._host.plan_for(self._host.committed_steps), self.cursor
        return cursor.cut(plan.local_batches, epoch=cursor.epoch, start=cursor.position) is not None

    def _fetch(self) -> tuple[Any, Ticket]:
        if self._data is None:
            self._data = self._source.batches(self.issue)
        while True:
            died: str | None = None
            try:
                batch = next(self._data)
            except FAILURES as error:
                died = how_it_died(error, workers=self._source.workers)
                if died is None or not self._issued:
                    raise
            if (
                died is not None
            ):  # not from within the clause: the error's traceback keeps torch's iterator
                raise self._worker_died(died)
            ticket = self._issued.popleft()
            if self._stale == 0:
                return batch, ticket
            self._stale -= 1

    def _worker_died(self, how: str) -> TrainingError:
        """Say which samples a dead loader worker was loading, and let go of torch's iterator:
        while that lives, torch raises anew, anywhere, as any child process ends."""
        ticket = self._issued[0]
        sample = self._source.name(ticket.cut.epoch, ticket.start)
        self.close()
        return TrainingError(
            f"a loader worker died near {sample}"
            f" (epoch {ticket.cut.epoch}, places {ticket.start} to {ticket.stop} of its order)",
            hint=how,
        )

    def issue(self) -> Iterator[tuple[int, int, int]]:
        """Issue tickets without end, and yield (epoch, start, stop) of each in the epoch's order;
        the source stops asking."""
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
                    first, stop = cut.start, cut.start + self._stand_in  # as far as there are any
                yield epoch, first, stop
                if self._next_cut is not issued_from:
                    break  # issued again from elsewhere meanwhile


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
