"""Buckets that are completed and given up at the same moment."""

from __future__ import annotations

import contextlib
import threading

import torch
from torch.futures import Future

from staves.training._reducer import WeightedReducer


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
