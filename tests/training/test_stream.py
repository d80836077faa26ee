"""Streams: every sample once an epoch, in the stream's own order, through any history."""

from __future__ import annotations

import gc
import json
import random
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset

import staves
from staves.errors import InputError, TrainingError
from staves.training import apportion
from staves.training._loader import Loader, Ticket
from staves.training._loader_workers import how_it_died
from staves.training._random import seed_everything
from tests.training.launch import SCRIPTS, staves_run
from tests.training.scripts.stream import BATCH, CASES, SEED, Shuffled, lengths, rotating
from tests.training.test_sampler import random_split


def in_order(length: int, seed: int, epoch: int) -> list[Any]:
    """Return a pass as one process reads it, without Staves."""
    stream = Shuffled([length] * (epoch + 1))
    stream.set_epoch(epoch)
    seed_everything(seed, epoch)
    return list(stream)


class Member:
    """One rank: its loader, and the host of it, which the test drives."""

    complete = False

    def __init__(self, length: int, seed: int, reference: int, options: dict[str, Any]) -> None:
        self.rank = self.committed_steps = 0
        self.local_batches, self.micro_steps = [reference], 1
        self.ticket: Ticket | None = None
        self.epochs_ended = 0
        self.loader = Loader(
            Shuffled([length] * 10),
            self,
            seed=seed,
            reference_batch=reference,
            batch=reference,
            place=lambda batch: batch,
            options={"collate_fn": list, **options},
        )
        self.batches = iter(self.loader)

    def plan_for(self, step: int) -> Any:
        return SimpleNamespace(
            number=0, local_batches=self.local_batches, micro_steps=self.micro_steps
        )

    def before_batch(self) -> None:
        pass

    def begin(self, ticket: Ticket) -> None:
        self.ticket = ticket

    def end_of_epoch(self) -> None:
        self.epochs_ended += 1

    def seat(self, rank: int, local_batches: list[int], micro_steps: int) -> None:
        self.rank, self.local_batches, self.micro_steps = rank, local_batches, micro_steps
        self.loader.reissue()

    def copy_place(self, other: Member) -> None:
        mine, theirs = self.loader.cursor, other.loader.cursor
        mine.epoch, mine.position = theirs.epoch, theirs.position
        self.committed_steps = other.committed_steps

    def step(self) -> list[Any] | None:
        """Load this rank's part of a step; None at the end of the pass."""
        own = []
        for micro in range(self.micro_steps):
            batch = next(self.batches, None)
            if batch is None:
                assert micro == 0
                return None
            assert self.ticket is not None
            assert batch, "there is always something to run on"
            if self.ticket.samples:
                assert len(batch) == self.ticket.samples
                own += batch
            random.random()  # training draws numbers, too, on each rank its own
            torch.rand(self.rank + 1)
        return own

    def settle(self, *, void: bool) -> None:
        assert self.ticket is not None
        if void:
            self.loader.reissue()
        else:
            self.loader.cursor.commit(self.ticket.cut)
            self.committed_steps += 1


def check_history(source: random.Random, length: int, seed: int, workers: int = 0) -> set[str]:
    """Train three passes with worlds, batches, splits, losses and joins at random."""
    reference = source.randint(1, 40)

    def newcomer() -> Member:
        return Member(length, seed, reference, {"num_workers": workers})

    def seat(members: list[Member]) -> None:
        split = random_split(source, len(members), source.randint(1, 40))
        micro_steps = source.randint(1, 3)
        for rank, member in enumerate(members):
            member.seat(rank, split, micro_steps)

    members, happened = [newcomer()], set()
    seat(members)
    for epoch in range(3):
        seen: list[Any] = []
        while True:
            parts = [member.step() for member in members]
            if None in parts:
                assert parts == [None] * len(members), "all ranks find the end at the same step"
                break
            void = source.random() < 0.2
            for member in members:
                member.settle(void=void)
            if void:
                happened.add("void")
            else:
                seen += [sample for part in parts for sample in part or []]
            change = source.random()
            if change < 0.2:
                happened.add("rescaled")
                keeper = source.choice(members)
                kept = [m for m in members if m is keeper or source.random() < 0.5]
                for _ in range(source.randint(0, 2)):
                    kept.append(newcomer())
                    kept[-1].copy_place(keeper)
                members = source.sample(kept, len(kept))
                seat(members)
            elif change < 0.5:
                happened.add("split anew")
                seat(members)
        assert seen == in_order(length, seed, epoch)
        for member in members:
            member.loader.cursor.next_epoch()
            member.batches = iter(member.loader)
    return happened


def test_thirty_histories() -> None:
    happened = set()
    for history in range(30):
        source = random.Random(history)
        happened |= check_history(source, source.randint(1, 300), history)
    assert happened == {"void", "rescaled", "split anew"}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 80), st.integers(-5, 2**70))
def test_any_history(history: int, length: int, seed: int) -> None:
    check_history(random.Random(history), length, seed)


def test_a_history_with_a_loader_worker() -> None:
    check_history(random.Random(5), 90, 5, workers=1)


def test_two_processes_over_a_stream(tmp_path: Path) -> None:
    done = staves_run(tmp_path, SCRIPTS / "stream.py", tmp_path, devices=2)
    assert done.status == 0, done.stderr
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    for name, case in CASES.items():
        committed = 0
        both = [rank[name]["epochs"] for rank in ranks]
        for epoch, (first, second) in enumerate(zip(*both, strict=True)):
            order = in_order(lengths(case)[epoch], SEED, epoch)
            if case.get("drop_last"):
                order = order[: len(order) // BATCH * BATCH]
            assert len(first) == len(second) == -(-len(order) // BATCH), name
            position = 0
            for loaded in zip(first, second, strict=True):
                local = apportion(rotating(committed), min(BATCH, len(order) - position))
                for own, count in zip(loaded, local, strict=True):
                    if count:  # else it is something to run on, which weighs nothing
                        wanted = [list(sample) for sample in order[position : position + count]]
                        assert own == wanted, (name, epoch)
                    position += count
                committed += 1
            assert position == len(order), name
        assert [rank[name]["steps"] for rank in ranks] == [committed, committed]
        assert [rank[name]["length"] for rank in ranks] == [case.get("says")] * 2


class Numbers(IterableDataset[torch.Tensor]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.tensor([float(number)]) for number in range(self.length))


class Sized(Numbers):
    def __len__(self) -> int:
        return self.length


class Plain:
    """No class of torch's: only what can be iterated over."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(Numbers(6))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> staves.training.Run:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)
    return staves.init(batch_size=4)


def train(run: staves.training.Run, batches: Any, **options: Any) -> list[list[float]]:
    module = torch.nn.Linear(1, 1)
    model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.01))
    seen = []
    for _ in run.epochs(2, **options):
        for inputs in batches:
            seen.append(inputs.flatten().tolist())
            run.backward(model(inputs).mean())
            optimizer.step()
    return seen


def test_one_process(run: staves.training.Run) -> None:
    assert train(run, run.loader(cast("Any", Plain()))) == [[0, 1, 2, 3], [4, 5]] * 2


@pytest.mark.parametrize("workers", [0, 1])
def test_a_pass_that_is_broken_off_begins_anew(run: staves.training.Run, workers: int) -> None:
    module = torch.nn.Linear(1, 1)
    model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=0.01))
    batches = run.loader(Numbers(30), num_workers=workers)
    seen = []
    for epoch in run.epochs(3):
        for inputs in batches:
            seen.append(inputs.flatten().tolist())
            run.backward(model(inputs).mean())
            optimizer.step()
            if len(seen) == 2 * (epoch + 1):
                break
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7]] * 3


class Dying(DataLoader[Any]):
    """Its worker dies as the second chunk is wanted; torch's words, without its signal."""

    left: ClassVar[weakref.WeakSet[Any]] = weakref.WeakSet()

    def __iter__(self) -> Any:
        class Worker:
            chunks = iter([(0, []), (0, [torch.zeros(1)] * 4)])

            def __next__(self) -> Any:
                for chunk in self.chunks:
                    return chunk
                raise RuntimeError("DataLoader worker (pid(s) 7) exited\nunexpectedly")

        self.left.add(worker := Worker())
        return worker


def test_a_loader_worker_that_dies_is_an_error(
    run: staves.training.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staves.training._loader_options.DataLoader", Dying)
    with pytest.raises(TrainingError, match=r"died behind sample 4 of the stream's") as raised:
        train(run, run.loader(Numbers(30), num_workers=1))
    assert raised.value.hint == "DataLoader worker (pid(s) 7) exited unexpectedly"
    gc.collect()
    assert not Dying.left  # while torch's iterator lives, its signal handler raises anew


@pytest.mark.parametrize("kind", ["stream", "indexed"])
def test_a_loader_worker_that_is_killed_ends_the_script(kind: str) -> None:
    """In a process of its own: torch raises wherever the signal of the dead child finds it."""
    command = [sys.executable, str(SCRIPTS / "deadly_loader.py"), kind]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert re.search("DataLoader worker .*exited unexpectedly|loader worker died", ended.stderr)


@pytest.mark.parametrize(
    ("error", "died"),
    [
        (RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed."), True),
        (RuntimeError("DataLoader worker (pid(s) 7, 8) exited\nunexpectedly"), True),
        (ConnectionResetError(104, "Connection reset by peer"), True),
        (EOFError(), True),
        (RuntimeError("Caught RuntimeError in DataLoader worker process 0.\nthe file"), False),
        (OSError("Caught OSError in DataLoader worker process 0.\nno such file"), False),
        (RuntimeError("DataLoader timed out after 5 seconds"), False),
    ],
)
def test_how_a_loader_worker_died(error: Exception, died: bool) -> None:
    words = how_it_died(error, workers=1)
    assert bool(words) is died
    assert how_it_died(error, workers=0) is None  # then the data set itself has raised it


class Broken(Numbers):
    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from super().__iter__()
        raise RuntimeError("the file is damaged")


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_stream_is_its_own(run: staves.training.Run, workers: int) -> None:
    with pytest.raises(RuntimeError, match=r"the file is damaged$"):
        train(run, run.loader(Broken(5), num_workers=workers))


def test_the_length_is_what_somebody_says(run: staves.training.Run) -> None:
    assert len(run.loader(Sized(10))) == 3


def test_a_declared_length(run: staves.training.Run) -> None:
    assert len(run.loader(Numbers(10), length=10, drop_last=True)) == 2


def test_a_length_that_nobody_says(run: staves.training.Run) -> None:
    batches = run.loader(Numbers(10))
    with pytest.raises(TypeError, match=r"run\.loader\(stream, length=\.\.\.\)"):
        len(batches)


@pytest.mark.parametrize(
    ("dataset", "options", "message", "hint"),
    [
        (Numbers(9), {"shuffle": True}, "shuffle cannot be given", "set_epoch"),
        (Numbers(9), {"num_workers": 2}, "2 loader workers for one stream", "num_workers=1"),
        (Numbers(9), {"pin_memory": True}, "pin_memory cannot be given", "leave it out"),
        (Numbers(9), {"persistent_workers": True}, "persistent_workers cannot", "anew"),
        (Numbers(9), {"length": 0}, "0 is not a positive integer", "count the samples"),
        (iter(Numbers(9)), {}, "a generator can be read only once", "IterableDataset"),
    ],
)
def test_what_is_refused(
    run: staves.training.Run, dataset: Any, options: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        run.loader(dataset, **options)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


def test_the_length_of_a_map_style_data_set_is_its_own(run: staves.training.Run) -> None:
    with pytest.raises(InputError, match="length is for a stream"):
        run.loader(torch.utils.data.TensorDataset(torch.ones(3, 1)), length=3)


@pytest.mark.parametrize(
    ("length", "drop_last", "message"),
    [(0, False, "ended before its first sample"), (3, True, "drop_last leaves nothing of 3")],
)
def test_a_stream_without_a_batch(
    run: staves.training.Run, length: int, drop_last: bool, message: str
) -> None:
    with pytest.raises(TrainingError, match=message):
        train(run, run.loader(Numbers(length), drop_last=drop_last))


def test_a_stream_that_is_shorter_than_it_was(run: staves.training.Run) -> None:
    batches = run.loader(Numbers(9))
    batches.cursor.position = 12  # of a checkpoint
    with pytest.raises(TrainingError, match="ended after 9 samples of pass 0, and 12 were trained"):
        train(run, batches)


@pytest.mark.parametrize("said", [None, 11])
def test_an_adaptive_batch_counts_passes_by_the_samples(
    monkeypatch: pytest.MonkeyPatch, said: int | None
) -> None:
    for name in ("RANK", "WORLD_SIZE", "STAVES_CHANNEL", "STAVES_MEMBER"):
        monkeypatch.delenv(name, raising=False)
    run = staves.init(batch_size=staves.Adaptive(4, max=4))
    batches = run.loader(Numbers(11), **({} if said is None else {"length": said}))
    if said is None:
        with pytest.raises(InputError, match="nobody has said how many") as caught:
            next(run.epochs(1))
        assert 'of="data"' in str(caught.value.hint)
        options = {"of": "data"}
    else:
        options = {}
    seen = train(run, batches, **options)
    assert [x for batch in seen for x in batch] == [float(x) for x in range(11)] * 2
