"""Emulated links: bytes take the declared time, and nothing else is held up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from staves.hardware import DeviceProfile, Pace
from staves.training import Pacer, _links
from staves.training._environment import WorkerDevice
from staves.training._links import Link
from staves.training._reducer import WeightedReducer
from staves.training._timing import HostClock, StepTimer
from tests.training.test_pacing import FakeTime
from tests.training.test_reducer import Bucket, alone

__all__ = ["alone"]

PROFILE = DeviceProfile(Pace(0.0, 0.001), Pace(0.0, 0.002))


@given(st.integers(2, 100), st.floats(1e3, 1e12), st.integers(0, 10**10))
def test_a_ring_sends_its_bytes_over_the_link(devices: int, speed: float, size: int) -> None:
    """Each device sends n - 1 of its n parts twice, and a part has size / n bytes."""
    bits = 2 * (devices - 1) * 8 * size / devices
    assert Link(speed, devices).seconds(size) == pytest.approx(bits / speed)


@pytest.mark.parametrize("pause", [0.0, 0.05, 3.0])
def test_buckets_go_one_after_the_other(monkeypatch: pytest.MonkeyPatch, pause: float) -> None:
    fake = FakeTime()
    monkeypatch.setattr(_links, "time", fake)
    link = Link(8e6, 2)  # a microsecond a byte
    came: list[tuple[str, float]] = []
    done = [threading.Event() for _ in range(3)]

    def arrival(name: str, event: threading.Event) -> Callable[[], None]:
        def arrived() -> None:
            came.append((name, fake.now))
            event.set()

        return arrived

    link.carry(100_000, arrival("a", done[0]))
    link.carry(200_000, arrival("b", done[1]))
    for event in done[:2]:
        assert event.wait(60)
    fake.work(pause)  # the wire is free
    link.carry(50_000, arrival("c", done[2]))
    assert done[2].wait(60)
    names, times = zip(*came, strict=True)
    assert names == ("a", "b", "c")
    assert times == pytest.approx((100.1, 100.3, 100.35 + pause))


def test_the_slowest_link_between_nodes_counts() -> None:
    def device(name: str, link: float | None) -> WorkerDevice:
        return WorkerDevice(name, "x", PROFILE, link)

    slow, fast, blank = device("a/x-0", 1e6), device("b/x-0", 1e9), device("c/x-0", None)
    link = Link.of([fast, slow, blank])
    assert link is not None
    assert link.seconds(6000) == Link(1e6, 3).seconds(6000)
    assert Link.of([slow, device("a/x-1", 1e6)]) is None  # within a node
    assert Link.of([blank, device("d/x-0", None)]) is None
    assert Link.of([slow]) is None


def test_a_bucket_is_reduced_when_the_link_has_carried_it(alone: Any) -> None:
    carried: list[tuple[int, Callable[[], None]]] = []

    class Held(Link):
        def carry(self, size: int, arrived: Callable[[], None]) -> None:
            carried.append((size, arrived))
            launched.set()

    launched = threading.Event()
    pacer = Pacer(PROFILE)
    pacer.link = Held(1e6, 2)
    timer = StepTimer(HostClock())
    device = torch.device("cpu")
    reducer = WeightedReducer(alone, timer, pacer, elements=2, device=device)
    reducer.begin()
    bucket: Any = Bucket([1.0, 2.0])
    future = reducer.hook(None, bucket)
    assert launched.wait(60)
    assert reducer.waits
    assert not future.done()
    ((size, arrived),) = carried
    assert size == 8
    arrived()
    assert future.wait().tolist() == [1.0, 2.0]
    assert not reducer.waits


def test_a_step_that_is_given_up_waits_for_no_link(alone: Any) -> None:
    pacer = Pacer(PROFILE)
    pacer.link = Link(1e-3, 2)  # hours
    reducer = WeightedReducer(
        alone, StepTimer(HostClock()), pacer, elements=2, device=torch.device("cpu")
    )
    reducer.begin()
    bucket: Any = Bucket([1.0, 2.0])
    future = reducer.hook(None, bucket)
    reducer.abandon(RuntimeError("given up"))
    with pytest.raises(RuntimeError, match="given up"):
        future.wait()
