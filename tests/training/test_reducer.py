"""Buckets that are completed and given up at the same moment."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.futures import Future

from staves.training._reducer import WeightedReducer
from staves.training._timing import HostClock, StepTimer


class Contended(Future[torch.Tensor]):
    """A future at which two threads look at the same time, if they are let."""

    def __init__(self) -> None:
        super().__init__()
        self.barrier = threading.Barrier(2)

    def done(self) -> bool:
        found = super().done()
        with contextlib.suppress(threading.BrokenBarrierError):  # alone, as it should be
            self.barrier.wait(timeout=0.5)
        return found


def test_a_bucket_that_comes_as_it_is_given_up_is_completed_once() -> None:
    """The watcher that raised here heard nothing any more, and all ranks waited for its rank."""
    future = Contended()
    errors: list[Exception] = []

    def settle(outcome: torch.Tensor | Exception) -> None:
        try:
            WeightedReducer._settle(future, outcome)
        except Exception as error:
            errors.append(error)

    outcomes: list[torch.Tensor | Exception] = [torch.ones(1), RuntimeError("given up")]
    threads = [threading.Thread(target=settle, args=(outcome,)) for outcome in outcomes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert Future.done(future)


class Bucket:
    """The last bucket of a step."""

    def __init__(self, values: list[float]) -> None:
        self.values = torch.tensor(values)

    def buffer(self) -> torch.Tensor:
        return self.values

    def is_last(self) -> bool:
        return True


@pytest.fixture
def alone() -> Iterator[Any]:
    """A process group of one rank."""
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("beside", [False, True], ids=["in the bucket", "beside it"])
@pytest.mark.parametrize("veto", [False, True])
@pytest.mark.parametrize("first", [1.0, math.nan, math.inf])
def test_only_a_veto_is_one(alone: Any, beside: bool, veto: bool, first: float) -> None:
    """Gradients of the script's own that are not finite are its own affair."""
    device = torch.device("cpu")
    reducer = WeightedReducer(alone, StepTimer(HostClock()), None, elements=2, device=device)
    reducer._votes_beside = beside  # as on other devices than a CPU
    for _ in range(2):
        reducer.begin()
        assert not reducer.voted
        assert not reducer.vetoed()
        reducer.veto = veto
        bucket: Any = Bucket([first, 2.0])
        reducer.hook(None, bucket).wait()
        assert reducer.voted
        assert reducer.vetoed() is veto
        assert bucket.values[1] == 2.0
